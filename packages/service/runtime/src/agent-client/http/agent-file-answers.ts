/** Reads an agent's responses about files: validates them before use and limits their size before keeping them. */
import type { IncomingMessage } from 'node:http';
import { LIMITS } from '@cloche/contract';
import {
  AgentFile,
  AgentFileEvent,
  type AgentFileEvent as AgentFileEventType,
  type AgentFile as AgentFileType,
  AgentUnpacked,
  type AgentUnpacked as AgentUnpackedType,
  MAX_AGENT_FILE_BYTES,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { answerBody } from '../../bytes/byte-transfer.ts';
import { type FileContent, FileError } from '../../driver/agent-files.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import { fileRefusal, headRefusal, toAgentError } from '../agent-errors.ts';
import { parseJson, readText } from '../bounded-body.ts';
import { withoutNul } from '../without-nul.ts';
import { agentErrorBody } from './agent-transport.ts';
import { readLines } from './line-buffer.ts';

const agentFile = Compile(AgentFile);
const agentFileEvent = Compile(AgentFileEvent);
const agentUnpacked = Compile(AgentUnpacked);

/** @throws FileError or AgentError for a response that is a refusal. */
export async function refuse(response: IncomingMessage, signal: AbortSignal, headOnly = false): Promise<void> {
  const { statusCode = 0, headers } = response;
  if ([200, 206, 304].includes(statusCode)) return;
  const range = /^bytes \*\/(\d{1,15})$/.exec(headers['content-range'] ?? '')?.[1];
  const sizeBytes = range === undefined ? undefined : Number(range);
  if (headOnly) throw headRefusal(statusCode, sizeBytes);
  const { error } = await readAnswer(response, signal, (text) => parseJson(text, agentErrorBody));
  throw fileRefusal(error, sizeBytes);
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
    throw new AgentError('misbehaved', 'The agent sent a file whose headers do not match the protocol.');
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
    return parse(await readText(response, MAX_AGENT_FILE_BYTES));
  } catch (error) {
    throw toAgentError(error, signal, 'files');
  }
}

export function parseFile(text: string): AgentFileType {
  // Sound: the text is checked, and the schema's static type is wider only in `type`.
  return withoutNul(parseJson(text, agentFile)) as AgentFileType;
}

export function parseUnpacked(text: string): AgentUnpackedType {
  // Sound: the text is checked, and the schema's static type is wider than the checked one.
  return parseJson(text, agentUnpacked) as AgentUnpackedType;
}

/**
 * Yields at most `limit` files, one per line.
 *
 * @throws FileError `too_many` for more bytes than a listing may have.
 */
export async function* readListing(
  response: IncomingMessage,
  limit: number,
  signal: AbortSignal,
): AsyncGenerator<AgentFileType, void> {
  let [entries, characters] = [0, 0];
  try {
    for await (const line of readLines(response as AsyncIterable<Buffer>, MAX_AGENT_FILE_BYTES)) {
      characters += line.length;
      entries += 1;
      if (entries > limit)
        throw new AgentError('misbehaved', 'The agent sent a listing with more entries than its limit.');
      if (characters > LIMITS.fileListBytes) throw tooLarge();
      yield parseFile(line);
    }
  } catch (error) {
    throw toAgentError(error, signal, 'files');
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
      const event = parseJson(line, agentFileEvent);
      yield event;
      if (event.type === 'ended') return;
    }
    throw new AgentError('gone', 'a watch that broke off');
  } catch (error) {
    throw toAgentError(error, signal, 'files');
  } finally {
    response.destroy();
  }
}
