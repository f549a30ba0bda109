import { type BigIntStats, constants } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { closeLater } from '@cloche/node-support';
import { AgentError } from '../base/agent-error.ts';
import { AdaptiveFile, THREAD_POOL } from './adaptive-file.ts';
import { type ByteRange, rangeOf, readCondition } from './conditions.ts';
import { etagOf } from './file-entry.ts';
import { onFile, shown, toFileError } from './file-error.ts';
import type { FilePath } from './file-path.ts';
import { closeQuietly, type FileSystem } from './file-system.ts';

/** Size of a buffer for a transfer. Each transfer has two. */
const CHUNK_BYTES = 512 * 1024;

/** Largest file that is read before the response begins. Files in `/sys` hold fewer bytes than their size says. */
const SMALL_BYTES = 256 * 1024;

/** Most bytes read from a file that reports size 0, as files in `/proc` do. */
const UNSIZED_BYTES = 16 * 1024 * 1024;

/** A file that is open for reading. */
interface OpenFile {
  readonly sizeBytes: number;
  /** The whole content, if it has been read already. */
  readonly content: Buffer | undefined;
  /** Undefined if the system does not report changes of the file. */
  readonly etag: string | undefined;
}

/** Answers a read of `path` with the current content, up to the current size. */
export async function sendContent(
  path: FilePath,
  system: FileSystem,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { fd, found } = onFile(path, () => openFile(path, system));
  try {
    const file = await readSmall(fd, found).catch((error: unknown) => {
      throw toFileError(error, path);
    });
    const range = answerHead(path, file, request, response);
    if (range === undefined || request.method === 'HEAD') response.end();
    else if (file.content) response.end(file.content.subarray(range.first, range.last + 1));
    else await stream(fd, range, response);
  } finally {
    closeLater(fd);
  }
}

function openFile(path: FilePath, system: FileSystem): { fd: number; found: BigIntStats } {
  return system.run(() => {
    // Checked before it is opened, because opening a device can have effects.
    requireFile(path, system.stat(path));
    // If a pipe has replaced the file since, opening it does not block.
    const fd = system.open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    try {
      const found = system.statOpen(fd);
      requireFile(path, found);
      return { fd, found };
    } catch (error) {
      closeQuietly(fd);
      throw error;
    }
  });
}

async function readSmall(fd: number, found: BigIntStats): Promise<OpenFile> {
  const sizeBytes = Number(found.size);
  if (sizeBytes > SMALL_BYTES) return { sizeBytes, content: undefined, etag: etagOf(found) };
  const content = sizeBytes === 0 ? await readUnsized(fd) : await readSized(fd, sizeBytes);
  const etag = sizeBytes === 0 && content.length > 0 ? undefined : etagOf(found);
  return { sizeBytes: content.length, content, etag };
}

function requireFile(path: FilePath, found: BigIntStats): void {
  if (found.isFile()) return;
  const what = found.isDirectory() ? 'a directory' : 'a pipe, a socket or a device';
  throw new AgentError('conflict', `${shown(path)} is ${what}; only files can be read and written.`);
}

/** Reads up to `bytes` from the beginning of a file. */
async function readSized(fd: number, bytes: number): Promise<Buffer> {
  const file = new AdaptiveFile(fd);
  const content = Buffer.allocUnsafe(bytes);
  for (let total = 0; ; ) {
    const bytesRead = await file.read(content.subarray(total), bytes - total, total);
    total += bytesRead;
    if (bytesRead === 0 || total === bytes) return content.subarray(0, total);
  }
}

/**
 * Reads a file of unknown size, by threads and without a position. The system generates such a file while it is read,
 * and some can only be read sequentially.
 */
async function readUnsized(fd: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let total = 0; total < UNSIZED_BYTES; ) {
    const part = Buffer.allocUnsafe(Math.min(UNSIZED_BYTES - total, 64 * 1024));
    const { bytesRead } = await THREAD_POOL.read(fd, part, 0, part.length, null);
    if (bytesRead === 0) break;
    parts.push(part.subarray(0, bytesRead));
    total += bytesRead;
  }
  return Buffer.concat(parts);
}

/** Sets status and headers. Returns the range to send, or undefined if the response has no body. */
function answerHead(
  path: FilePath,
  { etag, sizeBytes }: OpenFile,
  { headers }: IncomingMessage,
  response: ServerResponse,
): Exclude<ByteRange, string> | undefined {
  const common = { ...(etag === undefined ? {} : { etag }), 'accept-ranges': etag === undefined ? 'none' : 'bytes' };
  const condition = readCondition(headers, etag);
  if (condition === 'failed') throw new AgentError('precondition_failed', `${shown(path)} has a different ETag.`);
  if (condition === 'unchanged') {
    response.writeHead(304, common);
    return undefined;
  }
  const range = etag === undefined ? 'whole' : rangeOf(headers, etag, sizeBytes);
  if (range === 'unsatisfiable') {
    response.setHeader('content-range', `bytes */${sizeBytes}`);
    throw new AgentError(
      'range_not_satisfiable',
      `The range begins after the last byte of ${shown(path)}, which has ${sizeBytes} bytes.`,
    );
  }
  if (range === 'whole') {
    response.writeHead(200, { ...common, 'content-length': sizeBytes });
    return { first: 0, last: sizeBytes - 1 };
  }
  const { first, last } = range;
  const contentRange = `bytes ${first}-${last}/${sizeBytes}`;
  response.writeHead(206, { ...common, 'content-length': last - first + 1, 'content-range': contentRange });
  return range;
}

/** Sends a range, reading one chunk while the previous one is sent. Closes the connection if the file was truncated. */
async function stream(
  fd: number,
  { first, last }: Exclude<ByteRange, string>,
  response: ServerResponse,
): Promise<void> {
  const file = new AdaptiveFile(fd);
  let filling = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  let sending = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  let sent = Promise.resolve();
  for (let at = first; at <= last; ) {
    const bytesRead = await file.read(filling, Math.min(CHUNK_BYTES, last + 1 - at), at);
    await sent;
    if (bytesRead === 0) {
      response.destroy();
      return;
    }
    at += bytesRead;
    sent = write(response, filling.subarray(0, bytesRead));
    // Awaited in the next iteration. Until then this prevents an unhandled rejection.
    sent.catch(() => undefined);
    [filling, sending] = [sending, filling];
  }
  await sent;
  response.end();
}

/** Resolves when `bytes` are written and their buffer can be reused. */
function write(response: ServerResponse, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new Error('the connection closed'));
    if (response.destroyed) return onClose();
    response.once('close', onClose);
    response.write(bytes, (error) => {
      response.off('close', onClose);
      if (error) reject(error);
      else resolve();
    });
  });
}
