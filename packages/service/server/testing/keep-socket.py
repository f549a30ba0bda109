"""Keeps a listening socket as systemd does for a unit with a socket, and starts a command with it.

Usage: keep-socket.py COMMAND...
Prints the port. Starts the command for each line on standard input, and prints `started PID`. Prints `ended PID STATUS`
when it has ended. Ends, and kills the command, at the end of standard input.
"""

import os
import signal
import socket
import sys
import threading

kept = socket.socket()
kept.bind(("127.0.0.1", 0))
kept.listen(4096)


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def start():
    pid = os.fork()
    if pid == 0:
        os.dup2(kept.fileno(), 3)
        os.set_inheritable(3, True)
        environment = {**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
        os.dup2(2, 1)
        os.execvpe(sys.argv[1], sys.argv[1:], environment)
    say(f"started {pid}")
    return pid


def report(pid):
    _, status = os.waitpid(pid, 0)
    say(f"ended {pid} {os.waitstatus_to_exitcode(status)}")


say(kept.getsockname()[1])
pids = []
for _ in sys.stdin:
    pids.append(start())
    threading.Thread(target=report, args=(pids[-1],)).start()
for pid in pids:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
