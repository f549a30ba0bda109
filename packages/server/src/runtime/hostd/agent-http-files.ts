import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { pipeline } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  AGENT_FILE_ERROR_CODES,
  AgentErrorBody,
  AgentFile,
  type AgentFileErrorCode,
  type AgentFile as AgentFileType,
} from '@cloche/protocol';
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import {
  type AgentFiles,
  type FileContent,
  FileFault,
  type FileSource,
  type ReadOptions,
  type WriteOptions,
} from '../agent-files.ts';
import { AgentFault } from '../runtime-driver.ts';

const agentFile = Compile(AgentFile);
const errorBody = Compile(AgentErrorBody);

/** Transfers of one sandbox at a time, and those that wait for their turn. */
const MAX_TRANSFERS = 16;
const MAX_WAITING = 64;
const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * Files over one instance's socket. Node's own client carries them: it copies less than undici, and asks before it sends a
 * body. Transfers have connections of their own, so that none of them keeps a run waiting.
 */
export class AgentHttpFiles implements AgentFiles {
  readonly #socketPath: string;
  readonly #connections = new Agent({ keepAlive: true, maxSockets: MAX_TRANSFERS, maxFreeSockets: 1 });
  #transfers = 0;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions, signal: AbortSignal): Promise<FileContent> {
    const leave = this.#enter();
    try {
      const asked = this.#ask({ method: headOnly ? 'HEAD' : 'GET', path: contentPath(path), headers }, signal);
      asked.end();
      const response = await answerTo(asked, signal);
      await refuse(response, signal, headOnly);
      response.once('close', leave);
      return contentOf(response);
    } catch (error) {
      leave();
      throw error;
    }
  }

  async write(
    path: string,
    { sizeBytes, open }: FileSource,
    { headers = {}, mode }: WriteOptions,
    signal: AbortSignal,
  ): Promise<AgentFileType> {
    const length = sizeBytes === undefined ? {} : { 'content-length': sizeBytes };
    const leave = this.#enter();
    const asked = this.#ask(
      { method: 'PUT', path: contentPath(path, mode), headers: { ...headers, ...length, expect: '100-continue' } },
      signal,
    );
    try {
      asked.once('continue', () => {
        // The answer tells what became of it.
        pipeline(open(), asked, () => undefined);
      });
      asked.flushHeaders();
      const response = await answerTo(asked, signal);
      await refuse(response, signal);
      return (await readJson(response, agentFile, signal)) as AgentFileType;
    } finally {
      // An answer before the end of the body is a refusal: nothing of what would follow is wanted.
      if (!asked.writableFinished) asked.destroy();
      leave();
    }
  }

  close(): void {
    this.#connections.destroy();
  }

  #enter(): () => void {
    if (this.#transfers >= MAX_TRANSFERS + MAX_WAITING) {
      throw new AgentFault('busy', `${this.#transfers} files are being moved in and out of the sandbox`);
    }
    this.#transfers += 1;
    let isOver = false;
    return () => {
      if (!isOver) this.#transfers -= 1;
      isOver = true;
    };
  }

  #ask(options: RequestOptions, signal: AbortSignal): ClientRequest {
    return request({ ...options, socketPath: this.#socketPath, agent: this.#connections, signal });
  }
}

function contentPath(path: string, mode?: string): string {
  return `/files/content?${new URLSearchParams({ path, ...(mode === undefined ? {} : { mode }) })}`;
}

function answerTo(asked: ClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.once('response', resolve);
    // Stays: what breaks after the answer has begun is told by the answer.
    asked.on('error', (error) => {
      reject(signal.aborted ? signal.reason : new AgentFault('gone', error.message, { cause: error }));
    });
    asked.once('close', () => reject(new AgentFault('gone', 'the connection closed without an answer')));
  });
}

/** @throws what the agent refuses with. */
async function refuse(response: IncomingMessage, signal: AbortSignal, headOnly = false): Promise<void> {
  const { statusCode = 0, headers } = response;
  if ([200, 206, 304].includes(statusCode)) return;
  const range = /^bytes \*\/(\d{1,15})$/.exec(headers['content-range'] ?? '')?.[1];
  const sizeBytes = range === undefined ? undefined : Number(range);
  if (headOnly) throw new FileFault(...withoutWords(statusCode), sizeBytes);
  const { error } = (await readJson(response, errorBody, signal)) as { error: { code: string; message: string } };
  const message = error.message.slice(0, 500);
  if (isFileError(error.code)) throw new FileFault(error.code, message, sizeBytes);
  throw new AgentFault('internal', message);
}

/** An answer to HEAD has no body that could say more. */
function withoutWords(status: number): [AgentFileErrorCode, string] {
  switch (status) {
    case 404:
      return ['not_found', 'The file does not exist.'];
    case 412:
      return ['precondition_failed', 'The file has another ETag.'];
    case 416:
      return ['range_not_satisfiable', 'The range begins after the end of the file.'];
    case 400:
      return ['invalid_path', 'The path is none.'];
    default:
      return ['conflict', 'The file cannot be read.'];
  }
}

function isFileError(code: string): code is AgentFileErrorCode {
  return (AGENT_FILE_ERROR_CODES as readonly string[]).includes(code);
}

function contentOf(response: IncomingMessage): FileContent {
  const { statusCode, headers } = response;
  const { etag, 'content-length': length, 'content-range': contentRange } = headers;
  const isHonest =
    (etag === undefined || /^"[0-9a-f-]{1,100}"$/.test(etag)) &&
    (statusCode === 304 || /^\d{1,15}$/.test(length ?? '')) &&
    (statusCode === 206) === /^bytes \d{1,15}-\d{1,15}\/\d{1,15}$/.test(contentRange ?? '');
  if (!isHonest) {
    response.destroy();
    throw new AgentFault('misbehaved', 'a file whose headers do not fit the protocol');
  }
  return {
    // Checked by `refuse`.
    status: statusCode as FileContent['status'],
    sizeBytes: statusCode === 304 ? undefined : Number(length),
    etag,
    contentRange,
    body: response,
  };
}

async function readJson<S extends TSchema>(
  response: IncomingMessage,
  schema: Validator<Record<never, never>, S>,
  signal: AbortSignal,
): Promise<unknown> {
  let value: unknown;
  try {
    value = JSON.parse(await text(bounded(response)));
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof AgentFault) throw error;
    const kind = error instanceof SyntaxError ? 'misbehaved' : 'gone';
    throw new AgentFault(kind, 'an answer about a file that broke off or is no JSON', { cause: error });
  }
  if (!schema.Check(value)) throw new AgentFault('misbehaved', 'an answer about a file that does not fit its schema');
  return value;
}

async function* bounded(response: IncomingMessage): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new AgentFault('misbehaved', 'an endless answer about a file');
    yield chunk;
  }
}
