/**
 * Started by hostd as `node enter-template.ts <mount point> <program> …` with the template mounted there. Enters its
 * own namespaces, which contain none of the host's files, network or names, and executes the program. Dies with hostd.
 */
import { constants, openSync, writeFileSync } from 'node:fs';
import { execve } from 'node:process';
import { SANDBOX_HOST_NAME } from '../base/sandbox-host-name.ts';
import { bindLibc, checked } from '../linux/libc.ts';
import { detachMount, MS_NODEV, MS_NOSUID, mountFileSystem } from '../linux/mounts.ts';

const unshareCall = bindLibc('int unshare(int flags)');
const pivotRootCall = bindLibc('long syscall(long number, const char *to, const char *old)');
const setHostNameCall = bindLibc('int sethostname(const char *name, size_t length)');
const prctlCall = bindLibc('int prctl(int option, ulong value, ulong a, ulong b, ulong c)');

const dup2Call = bindLibc('int dup2(int from, int to)');
const fcntlCall = bindLibc('int fcntl(int fd, int command, int value)');

const CONTROL_FD = 3;
const PROCESS_FOLDER_FD = 4;
const F_SETFD = 2;
const CLONE_NEWNS = 0x0002_0000;
const CLONE_NEWUTS = 0x0400_0000;
const CLONE_NEWIPC = 0x0800_0000;
const CLONE_NEWNET = 0x4000_0000;
const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;
const SYS_PIVOT_ROOT = process.arch === 'arm64' ? 41 : 155;
/** Space for files that libraries write while they are loaded; nothing is written afterwards. */
const SCRATCH_BYTES = 16 * 1024 * 1024;

const [, , root = '', program = '', ...args] = process.argv;

// SECURITY: set by root before anything lowers it, so that no kernel can lower its own value below this one
// (e2e/security/forked-kernels.test.ts).
writeFileSync('/proc/self/oom_score_adj', '0');
const processFolder = openSync('/proc/self', constants.O_RDONLY | constants.O_DIRECTORY);
checked(prctlCall(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), 'prctl');
checked(unshareCall(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET), 'unshare');
// Python modules keep the name that they find when they are loaded (`platform.node()`), and forks inherit it.
checked(setHostNameCall(SANDBOX_HOST_NAME, SANDBOX_HOST_NAME.length), 'sethostname');
process.chdir(root);
for (const target of ['tmp', 'home/user']) {
  const options = `mode=0755,size=${SCRATCH_BYTES}`;
  mountFileSystem({ type: 'tmpfs', source: 'tmpfs', target, flags: MS_NOSUID | MS_NODEV, options });
}
checked(Number(pivotRootCall(SYS_PIVOT_ROOT, '.', '.')), 'pivot_root');
// The old root is mounted over the new one now.
detachMount('.');
process.chdir('/');

// The zygote's own folder of /proc, which it can read until it has loaded everything.
checked(dup2Call(processFolder, PROCESS_FOLDER_FD), 'dup2');
// Node sets close-on-exec on the descriptor; `execve` must keep it open.
checked(fcntlCall(CONTROL_FD, F_SETFD, 0), 'fcntl');
if (execve === undefined) throw new Error('this Node cannot execute in place');
execve(program, [program, ...args], {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
  HOME: '/home/user',
  USER: 'user',
  // A fork does not copy threads; a kernel starts as many as it may (`threads.py`).
  OPENBLAS_NUM_THREADS: '1',
  // Placeholder for the mark by which the agent finds a kernel's processes.
  CLOCHE_KERNEL: '-'.repeat(36),
});
