#!/bin/bash
# Runs in the virtual machine. Takes commands from the port to the host, one a line: a time limit in seconds and a script
# in base64. Answers with what the script prints, a NUL, and the script's status on the rest of the line.
exec 3<> /dev/virtio-ports/commands
printf 'ready\0' >&3
while read -r limit script <&3; do
  base64 --decode <<< "$script" > /run/command
  # The port can be opened once, so scripts get a pipe.
  timeout --kill-after=10 "$limit" bash /run/command < /dev/null 2>&1 3>&- | cat >&3
  printf '\0%d\n' "${PIPESTATUS[0]}" >&3
done
