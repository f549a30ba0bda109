import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { onAbort } from '@cloche/node-support';
import type { ByteRange } from '../kernel/used-ranges.ts';

const COPY_LAYER = fileURLToPath(new URL('copy-layer.ts', import.meta.url));
/** Requests of sandboxes come first. */
const NICENESS = 10;

/** The process ends with hostd, and has no capability. */
const CONFINED = ['--pdeathsig', 'KILL', '--bounding-set', '-all', '--inh-caps', '-all', '--no-new-privs'];

/** Digest of what was copied, and its bytes without blocks of zeros. */
export interface Copied {
  digest: string;
  bytes: number;
}

/**
 * Copies ranges of a device to the same offsets of a file, in a process of its own: hashing would occupy this one.
 * Resolves when the copy is on the disk. Rejects at the abort of `signal`, and then the process has ended.
 */
export async function copyRanges(
  ranges: readonly ByteRange[],
  { deviceFd, imageFd }: { deviceFd: number; imageFd: number },
  signal: AbortSignal,
): Promise<Copied> {
  signal.throwIfAborted();
  const child = spawn('setpriv', [...CONFINED, process.execPath, COPY_LAYER], {
    stdio: ['pipe', 'pipe', 'pipe', deviceFd, imageFd],
    env: {},
  });
  using _ = onAbort(signal, () => child.kill('SIGKILL'));
  const closed = once(child, 'close');
  const { stdin, stdout, stderr } = child;
  // Without free descriptors there are no pipes, and `closed` rejects.
  const printed = Promise.all([stdout ? text(stdout) : '', stderr ? text(stderr) : '']);
  if (child.pid !== undefined) setPriority(child.pid, NICENESS);
  stdin?.on('error', () => undefined).end(encode(ranges));
  const [[code], [result, problem]] = await Promise.all([closed, printed]);
  signal.throwIfAborted();
  if (code !== 0) throw new Error(`the copy of a layer failed: ${problem.trim().slice(-2000)}`);
  return JSON.parse(result) as Copied;
}

function encode(ranges: readonly ByteRange[]): Buffer {
  const records = Buffer.alloc(ranges.length * 16);
  for (const [index, { at, length }] of ranges.entries()) {
    records.writeBigUInt64LE(BigInt(at), index * 16);
    records.writeBigUInt64LE(BigInt(length), index * 16 + 8);
  }
  return records;
}
