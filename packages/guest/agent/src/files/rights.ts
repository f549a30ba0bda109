/**
 * The rights of a client's operation on files. The kernel checks them: this thread takes the effective ids of the
 * sandbox's user for the calls that an operation makes on paths.
 *
 * SECURITY: the thread is root again afterwards, so only synchronous calls may be made meanwhile. Another thread would
 * make a call as root (rights.test.ts, e2e/security/file-rights.test.ts).
 */
import { stat } from 'node:fs';
import type { FileUser } from '@cloche/protocol';
import { loadFfi } from '../base/load-ffi.ts';
import type { Owner } from './owner.ts';

export interface Rights {
  readonly user: FileUser;
  /** Calls `act` with these rights. Returns what `act` returns and throws what it throws. */
  run<T>(act: () => Settled<T>): T;
}

/** Any type but a promise, which would go on with other rights after `run` has returned. */
export type Settled<T> = T extends Promise<unknown> ? never : T;

/** Root's rights, which the agent has anyway. */
export const ROOT_RIGHTS: Rights = { user: 'root', run: <T>(act: () => Settled<T>) => act() as T };

/** The rights of one user id and group id, with no supplementary groups and no capabilities. */
export class UserRights implements Rights {
  readonly user = 'user';
  readonly #ids: Owner;
  #isHeld = false;

  constructor(ids: Owner) {
    this.#ids = ids;
  }

  run<T>(act: () => Settled<T>): T {
    if (this.#isHeld) return act() as T;
    credentials ??= openCredentials();
    const { take, giveBack } = credentials;
    take(this.#ids);
    this.#isHeld = true;
    try {
      return act() as T;
    } finally {
      this.#isHeld = false;
      giveBack();
    }
  }
}

interface Credentials {
  /** Takes the rights of `ids`. If it may not, it throws and keeps the agent's rights. */
  take(ids: Owner): void;
  giveBack(): void;
}

let credentials: Credentials | undefined;

const CALLS: Partial<Record<NodeJS.Architecture, { setresuid: number; setresgid: number }>> = {
  x64: { setresuid: 117, setresgid: 119 },
  arm64: { setresuid: 147, setresgid: 149 },
};
/** `(uid_t) -1`: leaves that id unchanged. */
const UNCHANGED = 0xffff_ffff;

/**
 * Makes the system calls directly, because the functions of the C library change all threads. gVisor does not support
 * `setfsuid`.
 */
function openCredentials(): Credentials {
  const calls = CALLS[process.arch];
  if (!calls) throw new Error(`the numbers of system calls are not known for ${process.arch}`);
  const { dlopen } = loadFfi();
  const types = { arguments: ['int32', 'uint32', 'uint32', 'uint32'], return: 'int32' } as const;
  const { syscall } = dlopen(null, { syscall: types }).functions;
  // A thread inherits the ids of the thread that starts it. This call makes the pool start its threads now, as root.
  stat('/', () => undefined);
  process.setgroups?.([]);
  const own = { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 };
  const setUser = ({ uid }: Owner) => syscall(calls.setresuid, UNCHANGED, uid, UNCHANGED) === 0;
  const setGroup = ({ gid }: Owner) => syscall(calls.setresgid, UNCHANGED, gid, UNCHANGED) === 0;
  const giveBack = () => {
    // An agent that is not root can start no process. Aborting ends the sandbox.
    if (!setUser(own) || !setGroup(own)) process.abort();
  };
  return {
    giveBack,
    // Only root may change the group, so the group changes first and is restored last.
    take: (ids) => {
      if (setGroup(ids) && setUser(ids)) return;
      giveBack();
      throw new Error('the agent may not act as the user of the sandbox');
    },
  };
}
