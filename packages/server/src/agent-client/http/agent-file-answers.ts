/** Reads an agent's responses about files: validates them before use and limits their size before keeping them. */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { LIMITS } from '@cloche/contract';
import {
  AGENT_FILE_ERROR_CODES,
  AgentFile,
  type AgentFileErrorCode,
  AgentFileEvent,
  type AgentFileEvent as AgentFileEventType,
  type AgentFile as AgentFileType,
  AgentUnpacked,
  type AgentUnpacked as AgentUnpackedType,
  MAX_AGENT_FILE_BYTES,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { AppError } from '../../base/app-error.ts';
import { answerBody } from '../../bytes/byte-transfer.ts';
import { type FileContent, FileError, type ListOptions } from '../../driver/agent-files.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import { agentErrorBody } from './agent-requests.ts';
import { LineTooLongError, readLines } from './ndjson.ts';

const agentFile = Compile(AgentFile);
const agentFileEvent = Compile(AgentFileEvent);
const agentUnpacked = Compile(AgentUnpacked);

export function answerTo(asked: ClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.once('response', resolve);
    let interim = 0;
    // An honest agent sends at most one interim response, `100 Continue`.
    asked.on('information', () => {
      interim += 1;
      if (interim > 1) asked.destroy(new Error('more interim answers than one'));
    });
    // This listener stays: the response reports errors that occur after it has begun.
    asked.on('error', (error) => {
      reject(signal.aborted ? signal.reason : new AgentError('gone', error.message, { cause: error }));
    });
    asked.once('close', () => reject(new AgentError('gone', 'the connection closed without an answer')));
  });
}

/** @throws FileError or AgentError for a response that is a refusal. */
export async function refuse(response: IncomingMessage, signal: AbortSignal, headOnly = false): Promise<void> {
  const { statusCode = 0, headers } = response;
  if ([200, 206, 304].includes(statusCode)) return;
  const range = /^bytes \*\/(\d{1,15})$/.exec(headers['content-range'] ?? '')?.[1];
  const size = range === undefined ? {} : { sizeBytes: Number(range) };
  if (headOnly) throw new FileError(...withoutWords(statusCode), size);
  const { code, message, path } = await readError(response, signal);
  const place = path === undefined ? {} : { path: path.slice(0, LIMITS.filePathLength).toWellFormed() };
  if (isFileError(code)) throw new FileError(code, message.slice(0, 500), { ...size, ...place });
  throw new AgentError('internal', message.slice(0, 500));
}

/** Returns the error of a response to HEAD, which has no body with details. */
function withoutWords(status: number): [AgentFileErrorCode, string] {
  switch (status) {
    case 403:
      return ['permission_denied', 'This user of the sandbox has no permission for the file.'];
    case 404:
      return ['not_found', 'The file does not exist.'];
    case 412:
      return ['precondition_failed', 'The file has a different ETag.'];
    case 416:
      return ['range_not_satisfiable', 'The range begins after the end of the file.'];
    case 400:
      return ['invalid_path', 'is invalid: give a non-empty path of at most 4096 bytes without NUL'];
    default:
      return ['conflict', 'The file cannot be read.'];
  }
}

function isFileError(code: string): code is AgentFileErrorCode {
  return (AGENT_FILE_ERROR_CODES as readonly string[]).includes(code);
}

export function contentOf(response: IncomingMessage, headOnly = false): FileContent {
  const { statusCode, headers } = response;
  const { etag, 'content-length': length, 'content-range': contentRange } = headers;
  const isHonest =
    (etag === undefined || /^"[0-9a-f-]{1,100}"$/.test(etag)) &&
    (statusCode === 304 || /^\d{1,15}$/.test(length ?? '')) &&
    (statusCode === 206) === /^bytes \d{1,15}-\d{1,15}\/\d{1,15}$/.test(contentRange ?? '');
  if (!isHonest) {
    response.destroy();
    throw new AgentError('misbehaved', 'a file whose headers do not fit the protocol');
  }
  const sizeBytes = statusCode === 304 ? undefined : Number(length);
  return {
    // Sound: `refuse` has checked it.
    status: statusCode as FileContent['status'],
    sizeBytes,
    etag,
    contentRange,
    body: headOnly ? response : answerBody(response, sizeBytes ?? 0),
  };
}

export async function readAnswer<T>(
  response: IncomingMessage,
  signal: AbortSignal,
  parse: (text: string) => T,
): Promise<T> {
  try {
    return parse(await text(bounded(response)));
  } catch (error) {
    throw toAgentError(error, signal);
  }
}

async function readError(response: IncomingMessage, signal: AbortSignal) {
  try {
    const body: unknown = JSON.parse(await text(bounded(response)));
    if (!agentErrorBody.Check(body)) throw new AgentError('misbehaved', 'a refusal that does not fit its schema');
    return body.error;
  } catch (error) {
    throw toAgentError(error, signal);
  }
}

export function parseFile(line: string): AgentFileType {
  const file: unknown = JSON.parse(line);
  if (!agentFile.Check(file)) throw new AgentError('misbehaved', 'a file that does not fit its schema');
  // Sound: the line was just checked, and the schema's static type is wider only in `type`.
  return file as AgentFileType;
}

/**
 * Reads at most `limit` files, one per line.
 *
 * @throws FileError `too_many` for more bytes than a listing may have.
 */
export async function readListing(
  response: IncomingMessage,
  { limit, resultMemory }: Pick<ListOptions, 'limit' | 'resultMemory'>,
  signal: AbortSignal,
): Promise<AgentFileType[]> {
  const files: AgentFileType[] = [];
  let characters = 0;
  try {
    for await (const line of readLines(response as AsyncIterable<Buffer>, MAX_AGENT_FILE_BYTES)) {
      characters += line.length;
      if (files.length >= limit) throw new AgentError('misbehaved', 'an endless listing');
      if (characters > LIMITS.fileListBytes) throw tooLarge();
      const waiting = resultMemory?.hold(line.length, signal);
      if (waiting) await waiting;
      files.push(parseFile(line));
    }
    return files;
  } catch (error) {
    throw toAgentError(error, signal);
  } finally {
    response.destroy();
  }
}

function tooLarge(): FileError {
  const mebibytes = LIMITS.fileListBytes / 1024 ** 2;
  const message = `The listing has more than ${mebibytes} MiB; list a subdirectory, or request fewer levels.`;
  return new FileError('too_many', message);
}

export async function* readChanges(
  response: IncomingMessage,
  signal: AbortSignal,
): AsyncGenerator<AgentFileEventType, void> {
  try {
    for await (const line of readLines(response as AsyncIterable<Buffer>, MAX_AGENT_FILE_BYTES)) {
      const event: unknown = JSON.parse(line);
      if (!agentFileEvent.Check(event)) throw new AgentError('misbehaved', 'a change that does not fit its schema');
      yield event;
      if (event.type === 'ended') return;
    }
    throw new AgentError('gone', 'a watch that broke off');
  } catch (error) {
    throw toAgentError(error, signal);
  } finally {
    response.destroy();
  }
}

export function parseUnpacked(answer: string): AgentUnpackedType {
  const unpacked: unknown = JSON.parse(answer);
  if (!agentUnpacked.Check(unpacked)) throw new AgentError('misbehaved', 'an answer that does not fit its schema');
  // Sound: the response was just checked, and the schema's static type is wider than the checked one.
  return unpacked as AgentUnpackedType;
}

async function* bounded(response: IncomingMessage): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_AGENT_FILE_BYTES) throw new AgentError('misbehaved', 'an endless answer about a file');
    yield chunk;
  }
}

/**
 * Returns the error to throw: the signal's reason after an abort, `misbehaved` for malformed or endless output, and
 * `gone` for any other failure.
 */
function toAgentError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof AgentError || error instanceof FileError || error instanceof AppError) return error;
  const isLie = error instanceof SyntaxError || error instanceof LineTooLongError;
  return new AgentError(isLie ? 'misbehaved' : 'gone', 'an answer about a file that broke off or is malformed', {
    cause: error,
  });
}
