import { open, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type AgentUnpacked, type ArchiveEntry, BadArchive, badArchive, readTar } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { describeFile } from '../files/file-entry.ts';
import { toFileFault } from '../files/file-fault.ts';
import { bytesOf, type FilePath, realPathOf } from '../files/file-path.ts';
import { makeFolders, type Owner, removeFolders } from '../files/owner.ts';
import { receive } from '../files/receive.ts';
import { temporaryIn } from '../files/temporary.ts';
import { ARCHIVE_FORMATS, type ArchiveFormat, pack } from './pack.ts';
import { readZip } from './read-zip.ts';
import { type UnpackLimits, unpack } from './unpack.ts';

const LIMITS: UnpackLimits = { maxEntries: 200_000, maxBytes: Number.MAX_SAFE_INTEGER };

export async function sendArchive(path: FilePath, format: string, response: ServerResponse): Promise<void> {
  if (!isFormat(format)) throw new AgentError('bad_request', `format is one of ${ARCHIVE_FORMATS.join(', ')}.`);
  const archive = await pack(path, format);
  response.writeHead(200);
  await pipeline(archive, response);
}

/** Unpacks what `openSource` gives into `path`, which is made where it is missing. */
export async function receiveArchive(
  path: FilePath,
  openSource: () => IncomingMessage,
  user: Owner,
): Promise<AgentUnpacked> {
  let made: FilePath[] = [];
  try {
    made = await makeFolders(path, user);
    const folder = await realPathOf(path);
    const unpacked = await unpackSource(openSource(), folder, user);
    return { file: await describeFile(path), ...unpacked };
  } catch (error) {
    await removeFolders(made);
    throw error instanceof BadArchive ? new AgentError('bad_archive', error.message) : toFileFault(error, path);
  }
}

async function unpackSource(source: IncomingMessage, folder: FilePath, user: Owner) {
  const first = await firstBytes(source);
  if (first.toString('latin1', 0, 2) === 'PK') return unpackZip(source, folder, user);
  const plain = decompressed(source, first);
  // It may find out that it is broken when nobody listens any more.
  plain.on('error', () => undefined);
  const broken = pipeline(source, plain).catch((error: unknown) => error);
  try {
    return await unpack(inTarsWords(readTar(plain)), folder, user, LIMITS);
  } finally {
    plain.destroy();
    await broken;
  }
}

/** Its directory is at the end, so it is stored first. */
async function unpackZip(source: IncomingMessage, folder: FilePath, user: Owner) {
  const stored = temporaryIn(folder);
  const handle = await open(bytesOf(stored), 'wx+', 0o600);
  try {
    await receive(source, handle);
    return await unpack(readZip(handle.fd), folder, user, LIMITS);
  } finally {
    await handle.close();
    await rm(bytesOf(stored), { force: true });
  }
}

function decompressed(source: Readable, first: Buffer) {
  // Loaded by those who need it: an idle sandbox does not pay for it.
  if (first[0] === 0x1f && first[1] === 0x8b) return process.getBuiltinModule('node:zlib').createGunzip();
  if (first.readUInt32LE(0) === 0xfd2fb528) return process.getBuiltinModule('node:zlib').createZstdDecompress();
  if (first.length === 0) source.resume();
  return new PassThrough();
}

/** What the decompressor says of broken bytes. */
async function* inTarsWords(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<ArchiveEntry, void> {
  try {
    yield* entries;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw /^(Z_|ZSTD_|ERR_ZSTD)/.test(code) ? badArchive('its compression is broken') : error;
  }
}

/** At least four, zeros where there are fewer; they are read again by whoever reads the source. */
async function firstBytes(source: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let bytes = 0; bytes < 4; ) {
    const part = source.read() as Buffer | null;
    if (part === null) {
      if (source.readableEnded || source.destroyed) break;
      const more = await new Promise<boolean>((resolve) => {
        source.once('readable', () => resolve(true));
        source.once('end', () => resolve(false));
        source.once('close', () => resolve(false));
      });
      if (!more) break;
      continue;
    }
    parts.push(part);
    bytes += part.length;
  }
  const first = Buffer.concat(parts);
  if (first.length > 0 && !source.readableEnded) source.unshift(first);
  if (first.length === 0) throw badArchive('it is empty');
  return first.length >= 4 ? first : Buffer.concat([first, Buffer.alloc(4)]);
}

function isFormat(text: string): text is ArchiveFormat {
  return (ARCHIVE_FORMATS as readonly string[]).includes(text);
}
