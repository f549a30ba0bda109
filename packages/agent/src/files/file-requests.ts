import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DirectBody } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { receiveArchive, sendArchive } from '../archives/archive-requests.ts';
import type { AgentConfig } from '../config.ts';
import { copyFile, deleteFile, makeDirectory, moveFile, type Transfer } from './change-files.ts';
import { describeFile } from './file-entry.ts';
import { onFile } from './file-fault.ts';
import { type FilePath, readPath } from './file-path.ts';
import { type Listing, sendListing } from './list-files.ts';
import type { Owner } from './owner.ts';
import { sendContent } from './read-content.ts';
import { receive } from './receive.ts';
import { receiveDirectly } from './receive-directly.ts';
import { sendChanges } from './watch-files.ts';
import { writeContent } from './write-content.ts';

/** Everything under `/files`, as `agent-protocol/files.ts` describes it. */
export class FileRequests {
  readonly #workspace: string;
  readonly #user: Owner;

  constructor({ workspace, uid, gid }: Pick<AgentConfig, 'workspace' | 'uid' | 'gid'>) {
    this.#workspace = workspace;
    this.#user = { uid, gid };
  }

  /** Whether `request` is one of these. */
  takes({ url = '' }: IncomingMessage): boolean {
    return url.startsWith('/files/') || url.startsWith('/files?');
  }

  /** Answers, or throws what the agent's server answers with. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // What is written when the server has just gone fails by itself, and that is all there is to it.
    response.on('error', () => undefined);
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://agent');
    switch (`${request.method} ${pathname}`) {
      case 'GET /files/content':
      case 'HEAD /files/content':
        return sendContent(await this.#path(query), request, response);
      case 'PUT /files/content':
        return this.#write(query, request, response);
      case 'GET /files/archive':
        return sendArchive(await this.#path(query), query.get('format') ?? '', response);
      case 'PUT /files/archive':
        return sendJson(response, await receiveArchive(await this.#path(query), opener(request, response), this.#user));
      case 'GET /files':
        return sendListing(await this.#path(query), listingOf(query), response);
      case 'GET /files/watch':
        return sendChanges(await this.#path(query), query.get('recursive') === 'true', response);
      case 'GET /files/stat': {
        const path = await this.#path(query);
        return sendJson(response, await onFile(path, () => describeFile(path)));
      }
      case 'POST /files/directories':
        return sendJson(response, await makeDirectory(await this.#path(query), this.#user));
      case 'POST /files/move':
        return sendJson(response, await moveFile(await this.#transfer(query), this.#user));
      case 'POST /files/copy':
        return sendJson(response, await copyFile(await this.#transfer(query), this.#user));
      case 'DELETE /files': {
        const [path, workspace] = [await this.#path(query), await readPath('.', this.#workspace)];
        return sendJson(response, await deleteFile(path, query.get('recursive') === 'true', workspace));
      }
      default:
        throw new AgentError('not_found', `The agent has no ${request.method} ${pathname}.`);
    }
  }

  async #write(query: URLSearchParams, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const mode = query.get('mode');
    const path = await this.#path(query);
    const { headers } = request;
    const open = opener(request, response);
    const receiveBody = (file: FileHandle) => {
      const source = open();
      return DirectBody.isPossible(source) ? receiveDirectly(source, response, file) : receive(source, file);
    };
    const write = { path, mode: mode === null ? undefined : Number.parseInt(mode, 8), headers, receive: receiveBody };
    sendJson(response, await writeContent(write, this.#user));
  }

  async #transfer(query: URLSearchParams): Promise<Transfer> {
    const [from, to] = [await this.#path(query, 'from'), await this.#path(query, 'to')];
    return { from, to, overwrite: query.get('overwrite') === 'true' };
  }

  #path(query: URLSearchParams, name = 'path'): Promise<FilePath> {
    return readPath(query.get(name) ?? '', this.#workspace);
  }
}

/** Gives the body, and tells a server that asked to send it. */
function opener(request: IncomingMessage, response: ServerResponse): () => IncomingMessage {
  return () => {
    if (request.headers.expect !== undefined) response.writeContinue();
    return request;
  };
}

function listingOf(query: URLSearchParams): Listing {
  const [depth, limit] = ['depth', 'limit'].map((name) => Number(query.get(name)));
  if (!depth || !limit) throw new AgentError('bad_request', 'A listing has a depth and a limit.');
  return { depth, limit };
}

function sendJson(response: ServerResponse, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
