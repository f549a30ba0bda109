import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress } from 'node:zlib';

export interface PackedFolder {
  readonly sizeBytes: number;
  readonly sha256: string;
  /** Bytes of the tar before it was compressed. */
  readonly plainBytes: number;
}

/**
 * Attributes that a template can have. Others belong to this host, such as labels of SELinux, or would change how an
 * overlay shows the files.
 */
const XATTRS = ['security.capability', 'user.*'];

/** zstd's output depends on how its input is cut, and a pipe cuts it where the reader happens to look. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Passes the tar of entries of a folder, compressed with zstd, to `write`: with numbers of owners, modes, times of files in seconds,
 * links and attributes. The same files always give the same bytes.
 */
export async function packFolder(
  folder: string,
  entries: readonly string[],
  write: (chunk: Buffer) => Promise<void>,
  { signal, onBytes = () => undefined }: { signal?: AbortSignal; onBytes?: (plainBytes: number) => void } = {},
): Promise<PackedFolder> {
  const tar = spawn('tar', [...tarOptions(folder), '--', ...entries], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
  });
  let said = '';
  tar.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1000);
  });
  tar.on('error', (error) => tar.stdout.destroy(error));
  const closed = once(tar, 'close');
  closed.catch(() => undefined);
  const hash = createHash('sha256');
  let [plainBytes, sizeBytes] = [0, 0];
  try {
    await pipeline(
      tar.stdout,
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          plainBytes += chunk.length;
          onBytes(plainBytes);
          yield chunk;
        }
      },
      inBlocks,
      createZstdCompress(),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) {
          sizeBytes += chunk.length;
          hash.update(chunk);
          await write(chunk);
        }
      },
      signal ? { signal } : {},
    );
  } catch (error) {
    tar.kill('SIGKILL');
    throw error;
  }
  const [code] = (await closed) as [number | null];
  if (code !== 0 && !(code === 1 && onlyLinked(said))) throw new Error(`tar of ${folder} failed: ${said.trim()}`);
  return { sizeBytes, plainBytes, sha256: hash.digest('hex') };
}

/** Cuts bytes into blocks of one size, of which only the last can be smaller. */
export async function* inBlocks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let taken = 0; taken < chunk.length; ) {
      const copied = chunk.copy(block, filled, taken);
      taken += copied;
      filled += copied;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}

/**
 * Whether tar's only remark is that a file changed. Nobody writes into a folder that is named by its digest, but another
 * guest folder may take a file as a hard link meanwhile, which changes the file's times.
 */
function onlyLinked(said: string): boolean {
  const lines = said.trim().split('\n');
  return lines.every((line) => line.endsWith(': file changed as we read it'));
}

function tarOptions(folder: string): string[] {
  return [
    '--create',
    '--file=-',
    `--directory=${folder}`,
    '--format=posix',
    // Fractions of seconds would be a record of their own for each file.
    '--pax-option=delete=atime,delete=ctime,delete=mtime',
    '--numeric-owner',
    '--sort=name',
    '--one-file-system',
    '--no-acls',
    '--no-selinux',
    '--xattrs',
    ...XATTRS.map((name) => `--xattrs-include=${name}`),
  ];
}
