/** The steps run in this order in the virtual machine. Bash runs each script as root and stops at its first error. */
export interface Step {
  readonly title: string;
  readonly script: string;
  /** Minutes after which the step is ended, on an idle machine without a processor that virtualises. */
  readonly minutes: number;
  /** The machine boots again before the script. */
  readonly reboots?: boolean;
}

/** Functions of the scripts. */
export const PRELUDE = `
set -eu -o pipefail
# Waits for a condition without an end: each step has a time limit.
until_ok() { until "$@" 2> /dev/null; do sleep 2; done; }
listens() { (exec 4<> /dev/tcp/127.0.0.1/4680); }
inactive() { ! systemctl is-active --quiet "$1"; }
fails() { if "$@"; then return 1; fi; }
# The groups of all sandboxes with their limits, and the controllers of the root.
limits() {
  cd /sys/fs/cgroup
  cat cgroup.subtree_control
  grep --recursive . cloche-*/*/kernels/{cpu.max,memory.max,memory.swap.max,pids.max}
}
processes() { cat /sys/fs/cgroup/cloche-*/*/*/cgroup.procs; }
[ ! -e /root/key ] || export CLOCHE_API_KEY="$(cat /root/key)"
cd /root
`;

export const UNITS: readonly Step[] = [
  {
    title: 'control groups are of version 2 alone',
    minutes: 1,
    script: `
      [ "$(stat --file-system --format %T /sys/fs/cgroup)" = cgroup2fs ]
      fails grep ' cgroup ' /proc/mounts
      cat /sys/fs/cgroup/cgroup.controllers`,
  },
  {
    title: 'the package is configured, and its units serve',
    minutes: 30,
    // Settings of an operator of a slow machine: it launches nothing ahead, and a sandbox may take long to become ready.
    script: `
      mkdir --parents /etc/systemd/system/cloche-prepare.service.d
      printf '[Service]\\nEnvironment=CLOCHE_POOL_SIZE=0 CLOCHE_LAUNCH_TIMEOUT_MS=600000\\n' \
        > /etc/systemd/system/cloche-prepare.service.d/slow.conf
      dpkg --configure cloche
      until_ok listens
      systemctl is-active cloche-hostd cloche-egress cloche-server
      cloche admin key create --scopes '*' > /root/key`,
  },
  {
    title: 'a sandbox has a first result',
    minutes: 15,
    script: `cloche run --timeout 10m -c 'print("result", 6 * 7)' | tee /dev/stderr | grep --line-regexp 'result 42'`,
  },
  {
    title: 'cloche doctor finds nothing missing',
    minutes: 5,
    script: 'cloche doctor',
  },
  {
    title: 'limits of a sandbox stay when systemd reads its units again',
    minutes: 10,
    script: `
      cloche sandbox create > sandbox
      cloche run --timeout 10m --sandbox "$(cat sandbox)" -c 'kept = 42'
      systemctl show --property Id,ControlGroup,Delegate cloche-hostd cloche-egress cloche-server
      limits | tee before
      systemctl daemon-reload
      systemctl set-property --runtime cloche-server.service CPUWeight=200
      limits | diff before -`,
  },
  {
    title: 'a sandbox continues while hostd and the server restart',
    minutes: 15,
    script: `
      processes > before
      systemctl restart cloche-hostd cloche-server
      until_ok listens
      [ -z "$(comm -23 <(sort before) <(processes | sort) | head -c 1)" ]
      cloche run --timeout 10m --sandbox "$(cat sandbox)" -c 'print("result", kept)' | grep --line-regexp 'result 42'`,
  },
  {
    title: 'a sandbox continues while all services are stopped',
    minutes: 15,
    script: `
      systemctl stop cloche.target
      for part in hostd egress server; do until_ok inactive cloche-$part; done
      systemctl start cloche.target
      until_ok listens
      cloche run --timeout 10m --sandbox "$(cat sandbox)" -c 'print("result", kept)' | grep --line-regexp 'result 42'`,
  },
  {
    title: 'a sandbox continues over an upgrade',
    minutes: 30,
    script: `
      dpkg --install /content/newer.deb
      while systemctl list-jobs | grep --quiet cloche-upgrade; do sleep 2; done
      [ "$(systemctl show --property Result --value cloche-upgrade.service)" = success ]
      [ "$(dpkg-query --show --showformat '\${Version}' cloche)" = 0.1.1 ]
      until_ok listens
      cloche run --timeout 10m --sandbox "$(cat sandbox)" -c 'print("result", kept)' | grep --line-regexp 'result 42'`,
  },
  {
    title: 'the units are confined as far as documented',
    minutes: 3,
    script: `
      for unit in cloche-prepare cloche-hostd cloche-egress cloche-server; do
        systemd-analyze security --no-pager "$unit" | tail -n 1
      done
      for unit in cloche-egress cloche-server; do systemd-analyze security --threshold 20 "$unit" > /dev/null; done`,
  },
  {
    title: 'after a reboot the units serve again, and nothing is left of sandboxes before',
    minutes: 20,
    reboots: true,
    script: `
      until_ok listens
      fails cloche run --timeout 10m --sandbox "$(cat sandbox)" -c 'print(kept)'
      fails ls -d /sys/fs/cgroup/cloche-*/"$(cat sandbox)"*
      cloche run --timeout 10m -c 'print("result", 6 * 7)' | grep --line-regexp 'result 42'`,
  },
  {
    title: 'the journal has neither errors nor traces of a stack',
    minutes: 3,
    script: `
      journalctl --no-pager --priority err --unit 'cloche*'
      [ -z "$(journalctl --quiet --priority err --unit 'cloche*')" ]
      fails journalctl --no-pager --unit 'cloche*' --grep '^\\s+at .+:[0-9]+'`,
  },
];
