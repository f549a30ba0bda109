import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import type { AgentFile, AgentUnpacked } from '@cloche/protocol';
import { LentBytes } from '../../lent-bytes.ts';
import type {
  AgentFiles,
  FileContent,
  FileSource,
  FileTransfer,
  ListOptions,
  ReadOptions,
  WriteOptions,
} from '../agent-files.ts';
import { AgentFault } from '../runtime-driver.ts';
import {
  answerTo,
  contentOf,
  parseFile,
  parseUnpacked,
  readAnswer,
  readChanges,
  readListing,
  refuse,
} from './agent-file-answers.ts';
import { TransferAgent } from './transfer-agent.ts';

/** Transfers of one sandbox at a time, and those that wait for their turn. */
const MAX_TRANSFERS = 16;
const MAX_WAITING = 64;
const MAX_ACTS = 8;
const MAX_WATCHES = 32;

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

  async unarchive(path: string, source: FileSource, signal: AbortSignal): Promise<AgentUnpacked> {
    return this.#upload(`/files/archive?${queryOf({ path })}`, source, {}, signal, parseUnpacked);
  }

  async list(path: string, { depth, ...bounds }: ListOptions, signal: AbortSignal) {
    const response = await this.#act('GET', `/files?${queryOf({ path, depth, limit: bounds.limit })}`, signal);
    return readListing(response, bounds, signal);
  }

  stat(path: string, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('GET', `/files/stat?${queryOf({ path })}`, signal);
  }

  makeDirectory(path: string, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/directories?${queryOf({ path })}`, signal);
  }

  move({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/move?${queryOf({ from, to, overwrite })}`, signal);
  }

  copy({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/copy?${queryOf({ from, to, overwrite })}`, signal);
  }

  remove(path: string, { recursive }: { recursive: boolean }, signal: AbortSignal): Promise<AgentFile> {
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

  async #change(method: string, path: string, signal: AbortSignal): Promise<AgentFile> {
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
