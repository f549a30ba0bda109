import type { IncomingMessage, ServerResponse } from 'node:http';
import { AgentError } from '../agent-error.ts';
import type { AgentConfig } from '../config.ts';
import { type FilePath, readPath } from './file-path.ts';
import type { Owner } from './owner.ts';
import { sendContent } from './read-content.ts';
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
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://agent');
    switch (`${request.method} ${pathname}`) {
      case 'GET /files/content':
      case 'HEAD /files/content':
        return sendContent(await this.#path(query), request, response);
      case 'PUT /files/content':
        return this.#write(query, request, response);
      default:
        throw new AgentError('not_found', `The agent has no ${request.method} ${pathname}.`);
    }
  }

  async #write(query: URLSearchParams, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const mode = query.get('mode');
    const path = await this.#path(query);
    const { headers } = request;
    const open = () => {
      if (headers.expect !== undefined) response.writeContinue();
      return request;
    };
    const write = { path, mode: mode === null ? undefined : Number.parseInt(mode, 8), headers, open };
    sendJson(response, await writeContent(write, this.#user));
  }

  #path(query: URLSearchParams, name = 'path'): Promise<FilePath> {
    return readPath(query.get(name) ?? '', this.#workspace);
  }
}

function sendJson(response: ServerResponse, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
