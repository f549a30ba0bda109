import type { FileUser } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { type FilePath, textOf } from './file-path.ts';
import { isWithinTemporary } from './temporary.ts';

type AgentErrorParameters = ConstructorParameters<typeof AgentError>;

/** Codes and messages for errors of the system. */
const SYSTEM_ERRORS: Readonly<Record<string, readonly [code: AgentErrorParameters[0], means: string]>> = {
  ENOENT: ['not_found', 'does not exist'],
  ENOTDIR: ['conflict', 'has a part that is not a directory'],
  EISDIR: ['conflict', 'is a directory'],
  EEXIST: ['conflict', 'already exists'],
  ENOTEMPTY: ['conflict', 'is a directory that is not empty'],
  ELOOP: ['conflict', 'has too many symbolic links'],
  EROFS: ['conflict', 'is on a read-only file system'],
  EBUSY: ['conflict', 'is in use'],
  ETXTBSY: ['conflict', 'is a running program'],
  EMLINK: ['conflict', 'has too many links'],
  EINVAL: ['conflict', 'does not support this operation'],
  EIO: ['conflict', 'cannot be read'],
  ENXIO: ['conflict', 'is a device or a pipe without a peer'],
  ENODEV: ['conflict', 'is a device that does not exist'],
  ENAMETOOLONG: ['invalid_path', 'has a name of more than 255 bytes'],
  ENOSPC: ['disk_full', 'does not fit on the disk of the sandbox'],
  EDQUOT: ['disk_full', 'does not fit on the disk of the sandbox'],
  EFBIG: ['disk_full', 'is larger than the disk of the sandbox allows'],
};

/** The error of an operation on `path` for which `user` lacks the rights. */
export class PermissionDeniedError extends AgentError {
  readonly #path: FilePath;
  readonly #user: FileUser;

  constructor(path: FilePath, user: FileUser) {
    const why =
      user === 'user'
        ? 'is not accessible to the user of the sandbox; repeat the request with `user` set to `root` to act as root of the sandbox'
        : 'is not accessible to root of the sandbox either';
    super('permission_denied', `${shown(path)} ${why}.`, textOf(path));
    this.#path = path;
    this.#user = user;
  }

  /** Returns the error with `path` in place of a temporary file of the agent, which no client knows. */
  on(path: FilePath): PermissionDeniedError {
    return isWithinTemporary(this.#path) ? new PermissionDeniedError(path, this.#user) : this;
  }
}

/** Converts an error of the system to an error of the protocol. Returns any other error unchanged. */
export function toFileError(error: unknown, path: FilePath): unknown {
  if (error instanceof PermissionDeniedError) return error.on(path);
  const [code, means] = SYSTEM_ERRORS[codeOf(error) ?? ''] ?? [];
  if (code !== undefined) return new AgentError(code, `${shown(path)} ${means}.`);
  if (!isAboutOneFile(error)) return error;
  return new AgentError('conflict', `${shown(path)} cannot be used: the system answers ${codeOf(error)}.`);
}

/** Errors of the system that say nothing about the file of the call: the agent lacks descriptors or memory. */
const SHORTAGES: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM'];

/** Returns whether the system or the user's rights refused a call on a file, so that the next file may succeed. */
export function isAboutOneFile(error: unknown): boolean {
  if (error instanceof PermissionDeniedError) return true;
  return error instanceof Error && 'syscall' in error && !SHORTAGES.includes(codeOf(error));
}

/** Calls `act`. Throws errors of the system as errors of the protocol. */
export function onFile<T>(path: FilePath, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw toFileError(error, path);
  }
}

export function shown(path: FilePath): string {
  const text = textOf(path);
  return JSON.stringify(text.length > 200 ? `…${text.slice(-200).toWellFormed()}` : text);
}
