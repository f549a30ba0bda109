/** System calls that a guest may make. All others are refused with EPERM. */
export interface SeccompProfile {
  defaultAction: string;
  defaultErrnoRet: number;
  architectures: string[];
  syscalls: SeccompRule[];
}

interface SeccompRule {
  names: readonly string[];
  action: string;
  errnoRet?: number;
  args?: Comparison[];
}

interface Comparison {
  index: number;
  value: number;
  valueTwo?: number;
  op: string;
}

/*
 * Calls left out on purpose, because attacks on kernels use them, although some are harmless without capabilities:
 * namespaces (unshare, setns), mounting, bpf, perf_event_open, userfaultfd, io_uring, keyrings (keyctl, add_key,
 * request_key), modules, kexec, swap, quotas, accounting, clocks, raw I/O ports, reboot, open_by_handle_at, fanotify,
 * pidfd_getfd, kcmp and NUMA policies that move pages.
 */
const FILES = `access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
  fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fdatasync fgetxattr flistxattr flock
  fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch
  inotify_init inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr
  lseek lsetxattr lstat mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pread64 preadv
  preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2
  rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync_file_range syncfs tee truncate umask unlink
  unlinkat utime utimensat utimes vmsplice write writev chroot`;
const MEMORY = `brk madvise membarrier mincore mlock mlock2 mlockall mprotect mremap msync munlock
  munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages get_mempolicy cachestat map_shadow_stack`;
const PROCESSES = `arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu
  getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage
  getsid gettid getuid ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
  pidfd_open pidfd_send_signal prlimit64 process_mrelease process_vm_readv process_vm_writev ptrace
  restart_syscall rseq sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
  sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler
  sched_yield set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid
  setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sysinfo tgkill times tkill uname vfork
  wait4 waitid`;
const SIGNALS = `alarm eventfd eventfd2 getitimer pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
  rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo setitimer sigaltstack signalfd signalfd4`;
const TIME = `clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time timer_create timer_delete
  timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime`;
const WAITING = `epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait futex futex_requeue futex_wait
  futex_waitv futex_wake pipe pipe2 poll ppoll pselect6 select`;
const COMMUNICATION = `accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify
  mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg recvmsg semctl semget
  semop semtimedop sendmmsg sendmsg sendto shmat shmctl shmdt shutdown getrandom`;

/** The bits of `clone` that make namespaces; the time namespace's lies in the low byte, which is the exit signal. */
const CLONE_NEW_NAMESPACES = 0x7e02_0000;
export const ENOSYS = 38;
const EPERM = 1;
const ENOMEM = 12;
const EINVAL = 22;
const ENOPROTOOPT = 92;
export const EPROTONOSUPPORT = 93;

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
/** The low bits of a socket's type; SOCK_NONBLOCK and SOCK_CLOEXEC lie above them. */
const SOCKET_TYPE_MASK = 0xf;

/**
 * The sockets of the internet that programs use: TCP, UDP and ICMP echo. A socket of another protocol (SCTP, DCCP,
 * L2TP, MPTCP, UDP-Lite) makes the kernel load that protocol's module, and the kernel requires no capability for it.
 */
const INTERNET_SOCKETS = [
  { family: AF_INET, type: SOCK_STREAM, protocols: [0, 6] },
  { family: AF_INET, type: SOCK_DGRAM, protocols: [0, 17, 1] },
  { family: AF_INET6, type: SOCK_STREAM, protocols: [0, 6] },
  { family: AF_INET6, type: SOCK_DGRAM, protocols: [0, 17, 58] },
];
/**
 * Netlink protocols that can only read without capabilities: routes (for name look-ups and lists of interfaces),
 * sock_diag (`ss`) and device events (libudev, libusb). Generic netlink is not allowed: it loads a module for each
 * family that a program names.
 */
const NETLINK_PROTOCOLS = [0, 4, 15];
/**
 * The audit protocol, which gets an error of its own: `useradd`, `su` and PAM continue without audit only if the kernel
 * seems to have no audit support.
 */
const NETLINK_AUDIT = 9;
const PR_SET_SECCOMP = 22;
/**
 * Flags for huge pages. An operator may reserve such pages, for a database for example, and all processes of the host
 * share them.
 */
const HUGE_PAGE_FLAGS = [
  { call: 'mmap', index: 3, flag: 0x4_0000 },
  { call: 'memfd_create', index: 1, flag: 0x4 },
  { call: 'shmget', index: 2, flag: 0x800 },
];
/** F_OFD_SETLK and F_OFD_SETLKW. */
const OPEN_FILE_LOCKS = [37, 38];
const SOL_SOCKET = 1;
/** SO_ATTACH_FILTER and SO_ATTACH_REUSEPORT_CBPF. */
const SOCKET_FILTERS = [26, 51];
/** Values of `personality` that programs use: the default, a 32-bit uname, no randomisation, and a query. */
const PERSONALITIES = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];

const NATIVE_ARCHITECTURE: Partial<Record<NodeJS.Architecture, string>> = {
  x64: 'SCMP_ARCH_X86_64',
  arm64: 'SCMP_ARCH_AARCH64',
};

/** Calls that create System V objects which outlive every process that uses them. Few programs need them. */
export const PERSISTENT_IPC_CALLS: readonly string[] = ['msgget', 'semget'];

export interface SeccompOptions {
  architecture?: NodeJS.Architecture;
  /** Whether the kernel limits a sandbox's System V objects; otherwise calls that create lasting ones are refused. */
  boundsIpc?: boolean;
}

/** Returns the profile for that architecture; calls of another one (32-bit calls on x64) are killed. */
export function seccompProfile({ architecture = process.arch, boundsIpc = true }: SeccompOptions = {}): SeccompProfile {
  const native = NATIVE_ARCHITECTURE[architecture];
  if (native === undefined) throw new Error(`there is no seccomp profile for ${architecture}: use x64 or arm64`);
  const named = [FILES, MEMORY, PROCESSES, SIGNALS, TIME, WAITING, COMMUNICATION].flatMap((names) =>
    names.split(/\s+/),
  );
  const allowed = named.filter((name) => boundsIpc || !PERSISTENT_IPC_CALLS.includes(name));
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: EPERM,
    architectures: [native],
    syscalls: [
      allow(allowed),
      allow(['clone'], { index: 0, value: CLONE_NEW_NAMESPACES, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }),
      // The flags of clone3 are in memory, which a filter cannot read. After ENOSYS, libraries use `clone`.
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      // One call can take all of the host's `fs.aio-max-nr`. After ENOSYS, libraries use threads.
      { names: ['io_setup'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      // sync would write out every file system of the host; a sandbox's own disk need not be written out (`volatile`).
      { names: ['sync'], action: 'SCMP_ACT_ERRNO', errnoRet: 0 },
      ...socketRules(),
      ...filterRules(),
      ...lockRules(),
      ...HUGE_PAGE_FLAGS.flatMap(withoutHugePages),
      ...PERSONALITIES.map((value) => allow(['personality'], { index: 0, value, op: 'SCMP_CMP_EQ' })),
    ],
  };
}

function socketRules(): SeccompRule[] {
  return [
    allow(['socket'], equals(0, AF_UNIX)),
    // Only Unix sockets: the kernel loads the module of any other family before it finds that the family has no pairs.
    allow(['socketpair'], equals(0, AF_UNIX)),
    ...INTERNET_SOCKETS.flatMap(({ family, type, protocols }) =>
      protocols.map((protocol) =>
        allow(['socket'], equals(0, family), equals(1, type, SOCKET_TYPE_MASK), equals(2, protocol)),
      ),
    ),
    ...NETLINK_PROTOCOLS.map((protocol) => allow(['socket'], equals(0, AF_NETLINK), equals(2, protocol))),
    {
      names: ['socket'],
      action: 'SCMP_ACT_ERRNO',
      errnoRet: EPROTONOSUPPORT,
      args: [equals(0, AF_NETLINK), equals(2, NETLINK_AUDIT)],
    },
  ];
}

/**
 * Refuses classic BPF filters. The kernel compiles each to machine code, for which all processes of the host share half
 * a gigabyte (`net.core.bpf_jit_limit`). If one sandbox filled it, no other could be launched, because its own filter
 * would not load. The errors are those of a kernel without such filters, which programs handle.
 */
function filterRules(): SeccompRule[] {
  return [
    { names: ['seccomp'], action: 'SCMP_ACT_ERRNO', errnoRet: EINVAL },
    { names: ['prctl'], action: 'SCMP_ACT_ERRNO', errnoRet: EINVAL, args: [equals(0, PR_SET_SECCOMP)] },
    ...anyBut(0, PR_SET_SECCOMP).map((option) => allow(['prctl'], option)),
    ...anyBut(1, SOL_SOCKET).map((level) => allow(['setsockopt'], level)),
    ...anyBut(2, ...SOCKET_FILTERS).map((option) => allow(['setsockopt'], equals(1, SOL_SOCKET), option)),
    ...SOCKET_FILTERS.map((option) => ({
      names: ['setsockopt'],
      action: 'SCMP_ACT_ERRNO',
      errnoRet: ENOPROTOOPT,
      args: [equals(1, SOL_SOCKET), equals(2, option)],
    })),
  ];
}

/** Allows the call without the flag; with it, answers as a host without reserved huge pages. */
function withoutHugePages({ call, index, flag }: (typeof HUGE_PAGE_FLAGS)[number]): SeccompRule[] {
  return [
    allow([call], equals(index, 0, flag)),
    { names: [call], action: 'SCMP_ACT_ERRNO', errnoRet: ENOMEM, args: [equals(index, flag, flag)] },
  ];
}

/**
 * Refuses locks of an open file. They last while the file is in transit through a socket, where `LockWatch` cannot find
 * their owner. The error is that of kernels before Linux 3.15.
 */
function lockRules(): SeccompRule[] {
  return [
    ...anyBut(1, ...OPEN_FILE_LOCKS).map((command) => allow(['fcntl'], command)),
    ...OPEN_FILE_LOCKS.map((command) => ({
      names: ['fcntl'],
      action: 'SCMP_ACT_ERRNO',
      errnoRet: EINVAL,
      args: [equals(1, command)],
    })),
  ];
}

/**
 * Returns comparisons that together match every `int` except the excluded ones: blocks of a power of two that contain
 * none of them.
 */
function anyBut(index: number, ...excluded: readonly number[]): Comparison[] {
  const cover = (first: number, size: number): Comparison[] => {
    if (!excluded.some((value) => value >= first && value < first + size)) {
      return [equals(index, first, 0x1_0000_0000 - size)];
    }
    return size === 1 ? [] : [...cover(first, size / 2), ...cover(first + size / 2, size / 2)];
  };
  return cover(0, 0x1_0000_0000);
}

/** Compares an `int`; the upper half of its register is undefined. */
function equals(index: number, value: number, mask = 0xffff_ffff): Comparison {
  return { index, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' };
}

function allow(names: readonly string[], ...args: Comparison[]): SeccompRule {
  return { names, action: 'SCMP_ACT_ALLOW', ...(args.length > 0 && { args }) };
}
