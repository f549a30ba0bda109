import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions, request } from 'node:http';
import type { Readable } from 'node:stream';
import type { AgentFile, AgentUnpacked, FileUser } from '@cloche/protocol';
import { discardBody, sendBody, TransferAgent } from '../../bytes/byte-transfer.ts';
import type {
  AgentFiles,
  FileContent,
  FileSource,
  FileTransfer,
  ListOptions,
  ReadOptions,
  WriteOptions,
} from '../../driver/agent-files.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
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

/** Most concurrent transfers of one sandbox, and most that wait for a connection. */
const MAX_TRANSFERS = 16;
const MAX_WAITING = 64;
const MAX_ACTS = 8;
const MAX_WATCHES = 32;

/**
 * The files of one instance, over its socket. Uses Node's own HTTP client, which copies less than undici and waits for
 * `100 Continue` before it sends a body. Transfers have connections of their own, so that they do not delay runs.
 */
export class AgentHttpFiles implements AgentFiles {
  readonly #socketPath: string;
  readonly #use: FileUse;
  readonly #user: FileUser;

  constructor(socketPath: string, use = new FileUse(), user: FileUser = 'user') {
    this.#socketPath = socketPath;
    this.#use = use;
    this.#user = user;
  }

  as(user: FileUser = 'user'): AgentHttpFiles {
    return user === this.#user ? this : new AgentHttpFiles(this.#socketPath, this.#use, user);
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions, signal: AbortSignal): Promise<FileContent> {
    const method = headOnly ? 'HEAD' : 'GET';
    return contentOf(await this.#download({ method, path: this.#contentPath(path), headers }, signal), headOnly);
  }

  archive(path: string, format: string, signal: AbortSignal): Promise<Readable> {
    return this.#download({ method: 'GET', path: `/files/archive?${this.#query({ path, format })}` }, signal);
  }

  async write(path: string, source: FileSource, { headers, mode }: WriteOptions, signal: AbortSignal) {
    return this.#upload(this.#contentPath(path, mode), source, headers, signal, parseFile);
  }

  async unarchive(path: string, source: FileSource, signal: AbortSignal): Promise<AgentUnpacked> {
    return this.#upload(`/files/archive?${this.#query({ path })}`, source, {}, signal, parseUnpacked);
  }

  async list(path: string, { depth, ...bounds }: ListOptions, signal: AbortSignal) {
    const response = await this.#act('GET', `/files?${this.#query({ path, depth, limit: bounds.limit })}`, signal);
    return readListing(response, bounds, signal);
  }

  stat(path: string, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('GET', `/files/stat?${this.#query({ path })}`, signal);
  }

  makeDirectory(path: string, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/directories?${this.#query({ path })}`, signal);
  }

  move({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/move?${this.#query({ from, to, overwrite })}`, signal);
  }

  copy({ from, to, overwrite }: FileTransfer, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('POST', `/files/copy?${this.#query({ from, to, overwrite })}`, signal);
  }

  remove(path: string, { recursive }: { recursive: boolean }, signal: AbortSignal): Promise<AgentFile> {
    return this.#change('DELETE', `/files?${this.#query({ path, recursive })}`, signal);
  }

  async watch(path: string, { recursive }: { recursive: boolean }, signal: AbortSignal) {
    const leave = this.#use.beginWatch();
    try {
      const options = {
        method: 'GET',
        path: `/files/watch?${this.#query({ path, recursive })}`,
        agent: false,
      } as const;
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
    this.#use.close();
  }

  async #change(method: string, path: string, signal: AbortSignal): Promise<AgentFile> {
    return readAnswer(await this.#act(method, path, signal), signal, parseFile);
  }

  /** Sends a request without file contents. Such a request does not wait for transfers. */
  async #act(method: string, path: string, signal: AbortSignal): Promise<IncomingMessage> {
    const asked = request({ method, path, socketPath: this.#socketPath, agent: this.#use.acting, signal });
    asked.end();
    const response = await answerTo(asked, signal);
    await refuse(response, signal);
    return response;
  }

  async #download(options: RequestOptions, signal: AbortSignal): Promise<IncomingMessage> {
    const leave = this.#use.beginTransfer();
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

  /** Sends `source` once the agent asks for it. */
  async #upload<T>(
    path: string,
    { sizeBytes, open }: FileSource,
    headers: Readonly<Record<string, string>> = {},
    signal: AbortSignal,
    parse: (text: string) => T,
  ): Promise<T> {
    const length = sizeBytes === undefined ? {} : { 'content-length': sizeBytes };
    const leave = this.#use.beginTransfer();
    let body: Readable | undefined;
    const asked = this.#ask(
      { method: 'PUT', path, headers: { ...headers, ...length, expect: '100-continue' } },
      signal,
    );
    try {
      asked.once('continue', () => {
        body = open();
        // The response reports whether the upload succeeded.
        sendBody(body, asked).catch(() => undefined);
      });
      asked.flushHeaders();
      const response = await answerTo(asked, signal);
      await refuse(response, signal);
      return await readAnswer(response, signal, parse);
    } finally {
      // A response before the end of the body is a refusal: the agent does not want the rest of the body.
      if (!asked.writableFinished) asked.destroy();
      discardBody(body);
      leave();
    }
  }

  #ask(options: RequestOptions, signal: AbortSignal): ClientRequest {
    return request({ ...options, socketPath: this.#socketPath, agent: this.#use.transferring, signal });
  }

  #contentPath(path: string, mode?: string): string {
    return `/files/content?${this.#query({ path, ...(mode === undefined ? {} : { mode }) })}`;
  }

  #query(values: Readonly<Record<string, string | number | boolean>>): string {
    const named = Object.entries({ ...values, user: this.#user }).map(([name, value]) => [name, String(value)]);
    return new URLSearchParams(named).toString();
  }
}

/** Tracks the file operations of one instance, with the rights of any user. */
class FileUse {
  readonly transferring = new TransferAgent({ keepAlive: true, maxSockets: MAX_TRANSFERS, maxFreeSockets: 1 });
  readonly acting = new Agent({ keepAlive: true, maxSockets: MAX_ACTS, maxFreeSockets: 1 });
  #transfers = 0;
  #watches = 0;

  /** Counts a transfer. Call the returned function when the transfer has ended; further calls have no effect. */
  beginTransfer(): () => void {
    if (this.#transfers >= MAX_TRANSFERS + MAX_WAITING) {
      throw new AgentError('busy', `${this.#transfers} files are being moved in and out of the sandbox`);
    }
    this.#transfers += 1;
    return once(() => {
      this.#transfers -= 1;
    });
  }

  /** Counts a watch. Call the returned function when the watch has ended; further calls have no effect. */
  beginWatch(): () => void {
    if (this.#watches >= MAX_WATCHES) throw new AgentError('busy', `${MAX_WATCHES} directories are watched already`);
    this.#watches += 1;
    return once(() => {
      this.#watches -= 1;
    });
  }

  close(): void {
    this.transferring.destroy();
    this.acting.destroy();
  }
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) act();
    isDone = true;
  };
}
