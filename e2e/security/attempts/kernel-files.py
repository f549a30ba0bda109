"""Opens files that change the kernel, and reads files that describe it. Opening is the test; nothing is written."""

import errno
import glob
import os

WRITE = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/conf/all/rp_filter",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/class/net/lo/mtu",
    "/sys/block/loop0/queue/nr_requests",
    *glob.glob("/sys/fs/cgroup/*/release_agent"),
    *glob.glob("/sys/fs/cgroup/*/cgroup.procs"),
    *glob.glob("/sys/fs/cgroup/*/notify_on_release"),
    *glob.glob("/sys/fs/cgroup/cgroup.procs"),
    *glob.glob("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    *glob.glob("/sys/fs/cgroup/pids/pids.max"),
    *glob.glob("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    *glob.glob("/sys/fs/cgroup/devices/devices.allow"),
    *glob.glob("/sys/fs/cgroup/memory.max"),
    *glob.glob("/sys/fs/cgroup/pids.max"),
]
READ = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/interrupts",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/sys/kernel/debug/x86",
    "/dev/kmsg",
    "/dev/mem",
    "/dev/loop-control",
    *glob.glob("/dev/[vsx]d[a-z]"),
    *glob.glob("/sys/firmware/*"),
]


def outcome(path, flags):
    try:
        file = os.open(path, flags | os.O_NONBLOCK)
    except OSError as error:
        return errno.errorcode[error.errno]
    try:
        if flags != os.O_RDONLY or os.path.isdir(path) or os.read(file, 1):
            return "done"
        return "empty"
    except OSError as error:
        return "empty" if error.errno == errno.EAGAIN else errno.errorcode[error.errno]
    finally:
        os.close(file)


# A test passes the paths of the host. A path that does not exist in a sandbox cannot be used there either.
paths = given.get("paths") or {"write": WRITE, "read": READ}
print(
    json.dumps(
        {
            **{f"write {path}": outcome(path, os.O_WRONLY) for path in paths["write"]},
            **{f"read {path}": outcome(path, os.O_RDONLY) for path in paths["read"]},
        }
    )
)
