import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { FinalError } from '@cloche/node-support';
import type { AgentFile, AgentUnpacked, FileUser } from '@cloche/protocol';
import { discardBody, sendBody } from '../../bytes/byte-transfer.ts';
import type {
  AgentFiles,
  ArchiveSource,
  FileContent,
  FileSource,
  FileTransfer,
  ListOptions,
  ReadOptions,
  WriteOptions,
} from '../../driver/agent-files.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import {
  contentOf,
  parseFile,
  parseUnpacked,
  readAnswer,
  readChanges,
  readListing,
  refuse,
} from './agent-file-answers.ts';
import { type AgentTransport, answerTo, type StreamRequest } from './agent-transport.ts';

/** Most transfers of one sandbox, including those that wait for a connection. */
const MAX_TRANSFERS = 80;
const MAX_WATCHES = 32;

/** The files of one instance. Validates every response before use. */
export class AgentHttpFiles implements AgentFiles {
  readonly #transport: AgentTransport;
  readonly #use: FileUse;
  readonly #user: FileUser;

  constructor(transport: AgentTransport, use = new FileUse(), user: FileUser = 'user') {
    this.#transport = transport;
    this.#use = use;
    this.#user = user;
  }

  as(user: FileUser = 'user'): AgentHttpFiles {
    return user === this.#user ? this : new AgentHttpFiles(this.#transport, this.#use, user);
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

  async unarchive(path: string, source: ArchiveSource, signal: AbortSignal): Promise<AgentUnpacked> {
    const query = this.#query({ path, ...source.attempt });
    return this.#upload(`/files/archive?${query}`, source, {}, signal, parseUnpacked);
  }

  async *list(path: string, { depth, limit, details = false }: ListOptions, signal: AbortSignal) {
    const query = this.#query({ path, depth, limit, marksUnlisted: true, ...(details && { details }) });
    const response = await this.#ask('files', { method: 'GET', path: `/files?${query}` }, signal);
    yield* readListing(response, limit, signal);
  }

  stat(path: string, signal: AbortSignal, details = false): Promise<AgentFile> {
    return this.#change('GET', `/files/stat?${this.#query({ path, ...(details && { details }) })}`, signal);
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
      const watch = { method: 'GET', path: `/files/watch?${this.#query({ path, recursive })}` };
      const response = await this.#ask('watch', watch, signal);
      response.once('close', leave);
      return readChanges(response, signal);
    } catch (error) {
      leave();
      throw error;
    }
  }

  async #change(method: string, path: string, signal: AbortSignal): Promise<AgentFile> {
    return readAnswer(await this.#ask('files', { method: method, path: path }, signal), signal, parseFile);
  }

  /** Sends a request without a body and returns its successful response. */
  async #ask(
    use: 'transfers' | 'files' | 'watch',
    asked: StreamRequest,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const response = await answerTo(this.#transport.stream(use, asked, signal).end(), 'files', signal);
    await refuse(response, signal, asked.method === 'HEAD');
    return response;
  }

  async #download(asked: StreamRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const leave = this.#use.beginTransfer();
    try {
      const response = await this.#ask('transfers', asked, signal);
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
    const upload = { method: 'PUT', path, headers: { ...headers, ...length, expect: '100-continue' } };
    const asked = this.#transport.stream('transfers', upload, signal);
    try {
      asked.once('continue', () => {
        body = open();
        // The response reports whether the upload succeeded.
        sendBody(body, asked).catch(() => undefined);
      });
      asked.flushHeaders();
      const response = await answerTo(asked, 'files', signal);
      await refuse(response, signal);
      return await readAnswer(response, signal, parse);
    } catch (error) {
      // The body was refused while it was sent, which broke the request off.
      throw body?.errored instanceof FinalError ? body.errored : error;
    } finally {
      // A response before the end of the body is a refusal: the agent does not want the rest of the body.
      if (!asked.writableFinished) asked.destroy();
      discardBody(body);
      leave();
    }
  }

  #contentPath(path: string, mode?: string): string {
    return `/files/content?${this.#query({ path, ...(mode === undefined ? {} : { mode }) })}`;
  }

  #query(values: Readonly<Record<string, string | number | boolean>>): string {
    const [user, owner] = this.#user.split(':') as [string, string?];
    const all = { ...values, user, ...(owner !== undefined && { owner }) };
    const named = Object.entries(all).map(([name, value]) => [name, String(value)]);
    return new URLSearchParams(named).toString();
  }
}

/** Tracks the file operations of one instance, with the rights of any user. */
class FileUse {
  #transfers = 0;
  #watches = 0;

  /** Counts a transfer. Call the returned function when the transfer has ended; further calls have no effect. */
  beginTransfer(): () => void {
    if (this.#transfers >= MAX_TRANSFERS) {
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
}

function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) act();
    isDone = true;
  };
}
