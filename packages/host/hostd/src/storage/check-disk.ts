import { fchownSync } from 'node:fs';
import { HostdError } from '../base/hostd-error.ts';
import type { IdRange } from '../base/id-range.ts';
import { runSilently } from '../linux/run-program.ts';

const CHECK_MS = 120_000;
/** Far more memory than the check of a disk takes. */
const MEMORY_BYTES = 2 ** 31;
/** e2fsck reads a disk of some sizes with one thread for each processor. */
const THREADS = 512;
/** Exit codes of e2fsck are sums of these; from this one on, errors are left. */
const UNCORRECTED = 4;

/**
 * Checks the file system of an image that was not unmounted, and mends it. Throws `disk_broken`.
 *
 * SECURITY: a process that has no capability and no network, sees no other process, and owns no file but the image parses
 * what a sandbox has shaped (check-disk.runtime.test.ts).
 *
 * @param idRange ids of a slot that no process has at the moment
 */
export async function checkDisk(imageFd: number, { base }: IdRange): Promise<void> {
  fchownSync(imageFd, base, base);
  try {
    const { code, signal } = await runSilently({
      file: 'unshare',
      args: [...alone(), '--', ...unprivileged(base), '--', ...bounded(), 'e2fsck', '-fy', '/proc/self/fd/3'],
      more: [imageFd],
      timeoutMs: CHECK_MS,
    });
    if (code === undefined) throw new Error(`the check of the disk ended with signal ${signal}`);
    if (code < UNCORRECTED) return;
    throw new HostdError('disk_broken', `the disk could not be mended: e2fsck ended with ${code}`);
  } finally {
    fchownSync(imageFd, 0, 0);
  }
}

function alone(): string[] {
  return ['--net', '--ipc', '--uts', '--mount', '--pid', '--fork', '--kill-child'];
}

function unprivileged(id: number): string[] {
  const ids = ['--reuid', String(id), '--regid', String(id), '--clear-groups'];
  return ['setpriv', ...ids, '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all'];
}

function bounded(): string[] {
  return ['prlimit', `--as=${MEMORY_BYTES}`, '--core=0', `--nproc=${THREADS}`, '--'];
}
