import { AgentError } from '../agent-error.ts';
import { type FilePath, textOf } from './file-path.ts';

type Fault = ConstructorParameters<typeof AgentError>;

/** What the system's refusals mean to a client. */
const FAULTS: Readonly<Record<string, readonly [code: Fault[0], means: string]>> = {
  ENOENT: ['not_found', 'does not exist'],
  ENOTDIR: ['conflict', 'leads through something that is no directory'],
  EISDIR: ['conflict', 'is a directory'],
  EEXIST: ['conflict', 'exists already'],
  ENOTEMPTY: ['conflict', 'is a directory that is not empty'],
  ELOOP: ['conflict', 'leads through too many symbolic links'],
  EACCES: ['conflict', 'may not be used, not even by root of the sandbox'],
  EPERM: ['conflict', 'may not be changed, not even by root of the sandbox'],
  EROFS: ['conflict', 'is on a file system that is read-only'],
  EBUSY: ['conflict', 'is in use'],
  ETXTBSY: ['conflict', 'is a program that runs'],
  EMLINK: ['conflict', 'has too many links'],
  EINVAL: ['conflict', 'does not allow this'],
  EIO: ['conflict', 'cannot be read'],
  ENXIO: ['conflict', 'is a device or a pipe that nobody serves'],
  ENODEV: ['conflict', 'is a device that does not exist'],
  ENAMETOOLONG: ['invalid_path', 'has a name of more than 255 bytes'],
  ENOSPC: ['disk_full', 'does not fit on the disk of the sandbox'],
  EDQUOT: ['disk_full', 'does not fit on the disk of the sandbox'],
  EFBIG: ['disk_full', 'is larger than the disk of the sandbox allows'],
};

/** `error` in the words of the protocol, where the system refused what was asked of `path`. */
export function toFileFault(error: unknown, path: FilePath): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const [fault, means] = FAULTS[code] ?? [];
  return fault === undefined ? error : new AgentError(fault, `${shown(path)} ${means}.`);
}

/** Does `act`; whatever the system refuses is thrown in the words of the protocol. */
export async function onFile<T>(path: FilePath, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw toFileFault(error, path);
  }
}

export function shown(path: FilePath): string {
  const text = textOf(path);
  return JSON.stringify(text.length > 200 ? `…${text.slice(-200).toWellFormed()}` : text);
}
