import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createZstdDecompress } from 'node:zlib';
import { type ArchiveEntry, readTar, TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive';
import type { ArchivePart } from './archive-list.ts';
import { TemplateArchiveError } from './template-archive-error.ts';
import { TreeCheck } from './tree-check.ts';

const FLAGS = { file: '0', hardlink: '1', symlink: '2', directory: '5' } as const;

/**
 * Unpacks a part of an untrusted archive into a folder that does not exist yet, as root, and checks its digest. After a
 * failure the folder is incomplete and must not be used.
 *
 * SECURITY: GNU tar, which knows owners and attributes, never reads the archive. It reads a tar that is written here, of
 * entries that were checked.
 *
 * @throws {TemplateArchiveError | InvalidArchiveError}
 */
export async function unpackPart(
  content: AsyncIterable<Buffer>,
  part: ArchivePart,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await mkdir(folder, { mode: 0o755 });
  const hash = createHash('sha256');
  const plain = createZstdDecompress();
  const feeding = pipeline(
    counted(content, (chunk) => hash.update(chunk)),
    plain,
    { signal },
  );
  // The reader of the decompressor gets the error too.
  feeding.catch(() => undefined);
  try {
    await unpack(rewritten(upTo(part.plainBytes, plain), part), folder, signal);
    await feeding;
  } finally {
    plain.destroy();
  }
  const sha256 = hash.digest('hex');
  if (sha256 !== part.sha256)
    throw new TemplateArchiveError(`${part.name} has the SHA-256 ${sha256}, and the list names ${part.sha256}`);
}

/** Yields a tar with the entries of an untrusted one. Throws `bad_archive` before an entry that is refused. */
async function* rewritten(tar: AsyncIterable<Buffer>, part: ArchivePart): AsyncGenerator<Buffer, void> {
  const check = new TreeCheck(part.kind);
  for await (const entry of readTar(tar)) {
    const path = check.admit(entry);
    // The folder itself is there.
    if (path === '') continue;
    const header = headerOf(path, entry);
    const padding = Buffer.alloc(tarPadding(entry.sizeBytes));
    if (entry.bytes) {
      yield Buffer.concat([header, entry.bytes, padding]);
      continue;
    }
    yield header;
    for await (const chunk of entry.content) yield chunk as Buffer;
    yield padding;
  }
  check.requireWhole();
  yield Buffer.alloc(2 * TAR_BLOCK_BYTES);
}

function headerOf(path: string, entry: ArchiveEntry): Buffer {
  const { type, mode, mtime, target, sizeBytes, uid = 0, gid = 0, xattrs } = entry;
  const linkName = type === 'file' || type === 'directory' ? '' : target;
  const size = type === 'file' ? sizeBytes : 0;
  return writeTarHeader({ name: path, flag: FLAGS[type], mode, size, mtime, linkName, uid, gid, xattrs });
}

async function unpack(tar: AsyncIterable<Buffer>, folder: string, signal: AbortSignal): Promise<void> {
  const program = spawn('tar', tarOptions(folder), {
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
  });
  let said = '';
  program.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1000);
  });
  program.on('error', (error) => program.stdin.destroy(error));
  const closed = once(program, 'close');
  closed.catch(() => undefined);
  const written = await pipeline(Readable.from(tar, { objectMode: false }), program.stdin, { signal }).catch(
    (error: NodeJS.ErrnoException) => error,
  );
  if (written && written.code !== 'EPIPE') {
    program.kill('SIGKILL');
    await closed.catch(() => undefined);
    throw written;
  }
  const [code] = (await closed) as [number | null];
  if (written || code !== 0) throw new Error(`tar could not unpack into ${folder}: ${said.trim()}`);
}

function tarOptions(folder: string): string[] {
  return [
    '--extract',
    '--file=-',
    `--directory=${folder}`,
    '--numeric-owner',
    '--same-owner',
    '--same-permissions',
    '--keep-old-files',
    '--no-acls',
    '--no-selinux',
    '--xattrs',
    '--xattrs-include=*',
  ];
}

async function* upTo(most: number, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  let bytes = 0;
  yield* counted(chunks, ({ length }) => {
    bytes += length;
    if (bytes > most) throw new TemplateArchiveError(`a part has more than the ${most} bytes that the list names`);
  });
}

async function* counted(chunks: AsyncIterable<Buffer>, count: (chunk: Buffer) => void): AsyncGenerator<Buffer, void> {
  for await (const chunk of chunks) {
    count(chunk);
    yield chunk;
  }
}
