/** What a guest may ask of the kernel. Everything that is not named here is refused with EPERM. */
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
  args?: { index: number; value: number; valueTwo?: number; op: string }[];
}

/*
 * Left out on purpose, though some are harmless without capabilities, because kernels are attacked through them:
 * namespaces (unshare, setns), mounting, bpf, perf_event_open, userfaultfd, io_uring, keyrings (keyctl, add_key,
 * request_key), modules, kexec, swap, quotas, accounting, clocks, raw I/O ports, reboot, open_by_handle_at, fanotify,
 * pidfd_getfd, kcmp and NUMA policies that move pages.
 */
const FILES = `access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
  fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
  fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch
  inotify_init inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr
  lseek lsetxattr lstat mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pread64 preadv
  preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2
  rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee truncate umask
  unlink unlinkat utime utimensat utimes vmsplice write writev chroot`;
const MEMORY = `brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap msync munlock
  munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages get_mempolicy cachestat map_shadow_stack`;
const PROCESSES = `arch_prctl capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu
  getegid geteuid getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage
  getsid gettid getuid ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
  pidfd_open pidfd_send_signal prctl prlimit64 process_mrelease process_vm_readv process_vm_writev ptrace
  restart_syscall rseq sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
  sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler
  sched_yield seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid
  setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sysinfo tgkill times tkill uname vfork
  wait4 waitid`;
const SIGNALS = `alarm eventfd eventfd2 getitimer pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
  rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo setitimer sigaltstack signalfd signalfd4`;
const TIME = `clock_getres clock_gettime clock_nanosleep gettimeofday nanosleep time timer_create timer_delete
  timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime`;
const WAITING = `epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait futex futex_requeue futex_wait
  futex_waitv futex_wake io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit pipe pipe2 poll ppoll
  pselect6 select`;
const COMMUNICATION = `accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify
  mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg recvmsg semctl semget
  semop semtimedop sendmmsg sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown socketpair getrandom`;

/** The bits of `clone` that make namespaces; the time namespace's lies in the low byte, which is the exit signal. */
const CLONE_NEW_NAMESPACES = 0x7e02_0000;
export const ENOSYS = 38;
const EPERM = 1;
/** Families of `socket`: Unix, IPv4, IPv6 and netlink (which only reads without capabilities) are what programs use. */
const SOCKET_FAMILIES = [1, 2, 10, 16];
/** Values of `personality` that programs ask for: the default, a 32-bit uname, no randomisation, and a query. */
const PERSONALITIES = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];

const NATIVE_ARCHITECTURE: Partial<Record<NodeJS.Architecture, string>> = {
  x64: 'SCMP_ARCH_X86_64',
  arm64: 'SCMP_ARCH_AARCH64',
};

/** What makes System V objects that few programs need and that stay when everybody has left them. */
export const LASTING_OBJECTS: readonly string[] = ['msgget', 'semget'];

export interface SeccompOptions {
  architecture?: NodeJS.Architecture;
  /** Whether the kernel bounds the System V objects of a sandbox; where it does not, those that last are refused. */
  boundsIpc?: boolean;
}

/** The profile for a machine of that architecture; calls of another (32-bit ones on x64) are killed. */
export function seccompProfile({ architecture = process.arch, boundsIpc = true }: SeccompOptions = {}): SeccompProfile {
  const native = NATIVE_ARCHITECTURE[architecture];
  if (native === undefined) throw new Error(`no seccomp profile for ${architecture}: use x64 or arm64`);
  const named = [FILES, MEMORY, PROCESSES, SIGNALS, TIME, WAITING, COMMUNICATION].flatMap((names) =>
    names.split(/\s+/),
  );
  const allowed = named.filter((name) => boundsIpc || !LASTING_OBJECTS.includes(name));
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: EPERM,
    architectures: [native],
    syscalls: [
      allow(allowed),
      allow(['clone'], { index: 0, value: CLONE_NEW_NAMESPACES, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }),
      // Its flags lie in memory, out of a filter's sight; told that it does not exist, libraries use `clone`.
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      ...SOCKET_FAMILIES.map((family) => allow(['socket'], { index: 0, value: family, op: 'SCMP_CMP_EQ' })),
      ...PERSONALITIES.map((value) => allow(['personality'], { index: 0, value, op: 'SCMP_CMP_EQ' })),
    ],
  };
}

function allow(names: readonly string[], ...args: NonNullable<SeccompRule['args']>): SeccompRule {
  return { names, action: 'SCMP_ACT_ALLOW', ...(args.length > 0 && { args }) };
}
