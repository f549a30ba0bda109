import { readFileSync, readlinkSync } from 'node:fs';
import { errorCode } from './libc.ts';

const REMEDY = 'start it by `unshare --mount --propagation private -- node …`';

/**
 * Throws unless this process has a private mount namespace, which no other process sees and which ends with it. Because
 * of that namespace a killed hostd leaves no mounts behind.
 */
export function assertOwnMountNamespace(): void {
  const own = mountNamespaceOf('self');
  // Where the namespace of the machine's first process is not readable, compare with the parent process.
  const others = mountNamespaceOf(1) ?? mountNamespaceOf(process.ppid);
  if (own === others) throw new Error(`hostd needs a mount namespace of its own: ${REMEDY}`);
  const isShared = readFileSync('/proc/self/mountinfo', 'utf8').includes(' shared:');
  if (isShared) throw new Error(`hostd's mounts would be passed on to other namespaces: ${REMEDY}`);
}

function mountNamespaceOf(pid: number | 'self'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch (error) {
    if (errorCode(error) === 'EACCES' || errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
