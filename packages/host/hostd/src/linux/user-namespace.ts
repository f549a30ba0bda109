import { closeSync, openSync, writeFileSync } from 'node:fs';
import koffi from 'koffi';
import type { IdRange } from '../base/id-range.ts';
import { withEffectiveUser } from './effective-user.ts';
import { bindLibc, checked } from './libc.ts';

const cloneCall = bindLibc('int clone(void *function, uintptr_t stack, int flags, void *argument)');
const waitpidCall = bindLibc('int waitpid(int pid, void *status, int options)');
const dlsymCall = bindLibc('void *dlsym(intptr_t library, const char *symbol)');

const CLONE_VM = 0x100;
const CLONE_VFORK = 0x4000;
const CLONE_NEWUSER = 0x10000000;
const SIGCHLD = 17;
const STACK_BYTES = 64 * 1024;

/**
 * A user namespace that maps ids, 0… by default, to a range, held by a descriptor until it is disposed of.
 *
 * The kernel counts what is used inside (inotify, queued signals, POSIX message queues, namespaces) a second time for
 * the namespace's owner outside, against limits of the host. A separate owner gives each sandbox these limits for
 * itself.
 * SECURITY: the owner has all capabilities over the namespace, so it is an id of no process (kernel-tables.test.ts).
 */
export class UserNamespace implements Disposable {
  readonly fd: number;

  /**
   * @param firstId first id that is mapped to the range
   * @param more further lines of the map, for ids outside of both
   */
  constructor(range: IdRange, firstId = 0, more = '') {
    this.fd = openUserNamespace(range, `${more}${firstId} ${range.base} ${range.size}\n`);
  }

  /** Path at which another process of this host can open the namespace. */
  get path(): string {
    return `/proc/${process.pid}/fd/${this.fd}`;
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

/**
 * Creating a namespace needs a process. This one only exits: the first and only function that it runs is `getppid` of
 * the C library. It shares this process's memory and runs while this thread is suspended, so the heap is not copied and
 * no JavaScript runs in it. Until it is reaped it keeps its namespace, and the map is written there.
 */
function openUserNamespace({ owner }: IdRange, map: string): number {
  const stack = Buffer.alloc(STACK_BYTES);
  const stackTop = (BigInt(koffi.address(stack)) + BigInt(STACK_BYTES)) & ~15n;
  const flags = CLONE_NEWUSER | CLONE_VM | CLONE_VFORK | SIGCHLD;
  const end = dlsymCall(0, 'getppid');
  const pid = withEffectiveUser(owner, () => checked(cloneCall(end, stackTop, flags, null), 'clone'));
  try {
    writeFileSync(`/proc/${pid}/uid_map`, map);
    writeFileSync(`/proc/${pid}/gid_map`, map);
    return openSync(`/proc/${pid}/ns/user`, 'r');
  } finally {
    waitpidCall(pid, null, 0);
  }
}
