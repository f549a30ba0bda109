import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  AGENT_FILE_ERROR_CODES,
  AgentErrorBody,
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
import { LentBytes } from '../../lent-bytes.ts';
import {
  type AgentFiles,
  type FileContent,
  FileFault,
  type FileSource,
  type FileTransfer,
  type ReadOptions,
  type WriteOptions,
} from '../agent-files.ts';
import { AgentFault } from '../runtime-driver.ts';
import { LineTooLong, readLines } from './ndjson.ts';
import { lenderOf, TransferAgent } from './transfer-agent.ts';

const agentFile = Compile(AgentFile);
const agentFileEvent = Compile(AgentFileEvent);
const agentUnpacked = Compile(AgentUnpacked);
const errorBody = Compile(AgentErrorBody);

/** Transfers of one sandbox at a time, and those that wait for their turn. */
const MAX_TRANSFERS = 16;
const MAX_WAITING = 64;
const MAX_ACTS = 8;
const MAX_WATCHES = 32;
/** From this size on a connection is spent on the body, and its pieces are lent on. */
const LENT_BYTES = 1024 * 1024;
/** Fifty thousand entries with paths of some length. */
const MAX_LIST_CHARACTERS = 64 * 1024 * 1024;

/**
 * Files over one instance's socket. Node's own client carries them: it copies less than undici, and asks before it sends a
 * body. Transfers have connections of their own, so that none of them keeps a run waiting.
 */
export class AgentHttpFiles implements AgentFiles {
  readonly #socketPath: string;
  readonly #transferring = new TransferAgent({ keepAlive: true, maxSockets: MAX_TRANSFERS, maxFreeSockets: 1 });
  readonly #acting = new Agent({ keepAlive: true, maxSockets: MAX_ACTS, maxFreeSockets: 1 });
  #transfers = 0;
  #watches = 0;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions, signal: AbortSignal): Promise<FileContent> {
    const method = headOnly ? 'HEAD' : 'GET';
    return contentOf(await this.#download({ method, path: contentPath(path), headers }, signal), headOnly);
  }

  archive(path: string, format: string, signal: AbortSignal): Promise<Readable> {
    return this.#download({ method: 'GET', path: `/files/archive?${queryOf({ path, format })}` }, signal);
  }

  async write(path: string, source: FileSource, { headers, mode }: WriteOptions, signal: AbortSignal) {
    return this.#upload(contentPath(path, mode), source, headers, signal, parseFile);
  }

  async unarchive(path: string, source: FileSource, signal: AbortSignal): Promise<AgentUnpackedType> {
    return this.#upload(`/files/archive?${queryOf({ path })}`, source, {}, signal, parseUnpacked);
  }

  async list(path: string, { depth, limit }: { depth: number; limit: number }, signal: AbortSignal) {
    const response = await this.#act('GET', `/files?${queryOf({ path, depth, limit })}`, signal);
    const files: AgentFileType[] = [];
    let bytes = 0;
    try {
      for await (const line of readLines(response as AsyncIterable<Buffer>, MAX_AGENT_FILE_BYTES)) {
        bytes += line.length;
        if (files.length >= limit || bytes > MAX_LIST_CHARACTERS)
          throw new AgentFault('misbehaved', 'an endless listing');
        files.push(parseFile(line));
      }
      return files;
    } catch (error) {
      throw asFault(error, signal);
    } finally {
      response.destroy();
    }
  }

  stat(path: string, signal: AbortSignal): Promise<AgentFileType> {
    return this.#change('GET', `/files/stat?${queryOf({ path })}`, signal);
  }

  makeDirectory(path: string, signal: AbortSignal): Promise<AgentFileType> {
    return this.#change('POST', `/files/directories?${queryOf({ path })}`, signal);
  }

  move({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFileType> {
    return this.#change('POST', `/files/move?${queryOf({ from, to, overwrite })}`, signal);
  }

  copy({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFileType> {
    return this.#change('POST', `/files/copy?${queryOf({ from, to, overwrite })}`, signal);
  }

  remove(path: string, { recursive }: { recursive: boolean }, signal: AbortSignal): Promise<AgentFileType> {
    return this.#change('DELETE', `/files?${queryOf({ path, recursive })}`, signal);
  }

  async watch(path: string, { recursive }: { recursive: boolean }, signal: AbortSignal) {
    if (this.#watches >= MAX_WATCHES) throw new AgentFault('busy', `${MAX_WATCHES} directories are watched already`);
    this.#watches += 1;
    const leave = () => {
      this.#watches -= 1;
    };
    try {
      const options = { method: 'GET', path: `/files/watch?${queryOf({ path, recursive })}`, agent: false } as const;
      const asked = request({ ...options, socketPath: this.#socketPath, signal });
      asked.end();
      const response = await answerTo(asked, signal);
      await refuse(response, signal);
      response.once('close', leave);
      return readChanges(response, signal);
    } catch (error) {
      leave();
      throw error;
    }
  }

  close(): void {
    this.#transferring.destroy();
    this.#acting.destroy();
  }

  async #change(method: string, path: string, signal: AbortSignal): Promise<AgentFileType> {
    return readAnswer(await this.#act(method, path, signal), signal, parseFile);
  }

  /** What takes no bytes along; it does not wait for those that do. */
  async #act(method: string, path: string, signal: AbortSignal): Promise<IncomingMessage> {
    const asked = request({ method, path, socketPath: this.#socketPath, agent: this.#acting, signal });
    asked.end();
    const response = await answerTo(asked, signal);
    await refuse(response, signal);
    return response;
  }

  async #download(options: RequestOptions, signal: AbortSignal): Promise<IncomingMessage> {
    const leave = this.#enter();
    try {
      const asked = this.#ask(options, signal);
      asked.end();
      const response = await answerTo(asked, signal);
      await refuse(response, signal, options.method === 'HEAD');
      response.once('close', leave);
      return response;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Sends `source` when the agent wants it. */
  async #upload<T>(
    path: string,
    { sizeBytes, open }: FileSource,
    headers: Readonly<Record<string, string>> = {},
    signal: AbortSignal,
    parse: (text: string) => T,
  ): Promise<T> {
    const length = sizeBytes === undefined ? {} : { 'content-length': sizeBytes };
    const leave = this.#enter();
    let body: Readable | undefined;
    const asked = this.#ask(
      { method: 'PUT', path, headers: { ...headers, ...length, expect: '100-continue' } },
      signal,
    );
    try {
      asked.once('continue', () => {
        body = open();
        // The answer tells what became of it.
        if (body instanceof LentBytes) sendLent(body, asked);
        else pipeline(body, asked, () => undefined);
      });
      asked.flushHeaders();
      const response = await answerTo(asked, signal);
      await refuse(response, signal);
      return await readAnswer(response, signal, parse);
    } finally {
      // An answer before the end of the body is a refusal: nothing of what would follow is wanted.
      if (!asked.writableFinished) asked.destroy();
      if (body instanceof LentBytes) body.destroy();
      leave();
    }
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
    return request({ ...options, socketPath: this.#socketPath, agent: this.#transferring, signal });
  }
}

function contentPath(path: string, mode?: string): string {
  return `/files/content?${queryOf({ path, ...(mode === undefined ? {} : { mode }) })}`;
}

function sendLent(body: LentBytes, asked: ClientRequest): void {
  body
    .lend((bytes, giveBack) => asked.write(bytes, giveBack))
    .then(
      () => asked.end(),
      () => asked.destroy(),
    );
}

function queryOf(values: Readonly<Record<string, string | number | boolean>>): string {
  return new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)])).toString();
}

function answerTo(asked: ClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.once('response', resolve);
    let interim = 0;
    // One of them asks for the body; an agent that sends more has something else in mind.
    asked.on('information', () => {
      interim += 1;
      if (interim > 1) asked.destroy(new Error('more interim answers than one'));
    });
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
  const { code, message } = await readError(response, signal);
  if (isFileError(code)) throw new FileFault(code, message.slice(0, 500), sizeBytes);
  throw new AgentFault('internal', message.slice(0, 500));
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

function contentOf(response: IncomingMessage, headOnly = false): FileContent {
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
  const sizeBytes = statusCode === 304 ? undefined : Number(length);
  const lender = headOnly || (sizeBytes ?? 0) < LENT_BYTES ? undefined : lenderOf(response, sizeBytes ?? 0);
  const lent = lender && new LentBytes(lender);
  // What breaks is told by the lender.
  if (lent) response.on('error', () => undefined).once('close', () => lent.giveUp());
  return {
    // Checked by `refuse`.
    status: statusCode as FileContent['status'],
    sizeBytes,
    etag,
    contentRange,
    body: lent ?? response,
  };
}

async function readAnswer<T>(response: IncomingMessage, signal: AbortSignal, parse: (text: string) => T): Promise<T> {
  try {
    return parse(await text(bounded(response)));
  } catch (error) {
    throw asFault(error, signal);
  }
}

async function readError(response: IncomingMessage, signal: AbortSignal): Promise<{ code: string; message: string }> {
  try {
    const body: unknown = JSON.parse(await text(bounded(response)));
    if (!errorBody.Check(body)) throw new AgentFault('misbehaved', 'a refusal that does not fit its schema');
    return body.error;
  } catch (error) {
    throw asFault(error, signal);
  }
}

function parseFile(line: string): AgentFileType {
  const file: unknown = JSON.parse(line);
  if (!agentFile.Check(file)) throw new AgentFault('misbehaved', 'a file that does not fit its schema');
  // The schema's own type is wider in its `type` alone; it has just been checked.
  return file as AgentFileType;
}

async function* readChanges(response: IncomingMessage, signal: AbortSignal): AsyncGenerator<AgentFileEventType, void> {
  try {
    for await (const line of readLines(response as AsyncIterable<Buffer>, MAX_AGENT_FILE_BYTES)) {
      const event: unknown = JSON.parse(line);
      if (!agentFileEvent.Check(event)) throw new AgentFault('misbehaved', 'a change that does not fit its schema');
      yield event;
      if (event.type === 'ended') return;
    }
    throw new AgentFault('gone', 'a watch that broke off');
  } catch (error) {
    throw asFault(error, signal);
  } finally {
    response.destroy();
  }
}

function parseUnpacked(answer: string): AgentUnpackedType {
  const unpacked: unknown = JSON.parse(answer);
  if (!agentUnpacked.Check(unpacked)) throw new AgentFault('misbehaved', 'an answer that does not fit its schema');
  // As above.
  return unpacked as AgentUnpackedType;
}

async function* bounded(response: IncomingMessage): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_AGENT_FILE_BYTES) throw new AgentFault('misbehaved', 'an endless answer about a file');
    yield chunk;
  }
}

/** An abort stays what its signal says; what is no JSON, or has no end, is misbehaviour; the rest broke. */
function asFault(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof AgentFault) return error;
  const isLie = error instanceof SyntaxError || error instanceof LineTooLong;
  return new AgentFault(isLie ? 'misbehaved' : 'gone', 'an answer about a file that broke off or is none', {
    cause: error,
  });
}
