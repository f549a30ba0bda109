import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyStream } from '@cloche/node-support';
import type { ArchiveAttempt, FileUser } from '@cloche/protocol';
import { ArchiveAttempts } from '../archives/archive-attempts.ts';
import { receiveArchive, sendArchive } from '../archives/archive-requests.ts';
import { AgentError } from '../base/agent-error.ts';
import { ensureWorkspace, isWithin, type WorkspaceOptions } from '../base/workspace-folder.ts';
import { copyFile, deleteFile, makeDirectory, moveFile, type Transfer } from '../files/change-files.ts';
import { describeFile } from '../files/file-entry.ts';
import { onFile } from '../files/file-error.ts';
import type { FilePath } from '../files/file-path.ts';
import { FileSystem } from '../files/file-system.ts';
import { type Listing, sendListing } from '../files/list-files.ts';
import { sendContent } from '../files/read-content.ts';
import { readPath } from '../files/read-path.ts';
import { receiveBody } from '../files/receive-body.ts';
import { ROOT_RIGHTS, UserRights } from '../files/rights.ts';
import { sendChanges } from '../files/watch-files.ts';
import { writeContent } from '../files/write-content.ts';

/** Serves the requests under `/files`, as `agent-protocol/files.ts` describes them. */
export class FileRequests {
  readonly #options: WorkspaceOptions;
  readonly #systems: Readonly<Record<FileUser, FileSystem>>;
  readonly #archiveAttempts = new ArchiveAttempts();

  constructor(options: WorkspaceOptions) {
    this.#options = options;
    const { uid, gid } = options;
    this.#systems = {
      user: new FileSystem(new UserRights({ uid, gid })),
      root: new FileSystem(ROOT_RIGHTS),
      'root:user': new FileSystem(ROOT_RIGHTS, { uid, gid }),
    };
  }

  /** Returns whether `request` is one under `/files`. */
  takes({ url = '' }: IncomingMessage): boolean {
    return url.startsWith('/files/') || url.startsWith('/files?');
  }

  /** Answers a request. What it throws becomes the agent's error response. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Writing after the server has disconnected fails. Nothing needs to be done about that.
    response.on('error', () => undefined);
    const { pathname, searchParams: query } = new URL(request.url ?? '', 'http://agent');
    const system = this.#systems[userOf(query)];
    const path = (name = 'path') => this.#path(query.get(name) ?? '', system);
    const transfer = (): Transfer => ({
      from: path('from'),
      to: path('to'),
      overwrite: query.get('overwrite') === 'true',
    });
    switch (`${request.method} ${pathname}`) {
      case 'GET /files/content':
      case 'HEAD /files/content':
        return sendContent(path(), system, request, response);
      case 'PUT /files/content':
        return receiveContent(path(), query.get('mode'), system, request, response);
      case 'GET /files/archive':
        return sendArchive(path(), query.get('format') ?? '', system, response);
      case 'PUT /files/archive': {
        const open = opener(request, response);
        const unpackArchive = (signal: AbortSignal) => receiveArchive(path(), () => bodyStream(open()), system, signal);
        return sendJson(response, await this.#archiveAttempts.run(attemptOf(query), unpackArchive));
      }
      case 'GET /files':
        return sendListing(path(), listingOf(query), system, response);
      case 'GET /files/watch':
        return sendChanges(path(), query.get('recursive') === 'true', system, response);
      case 'GET /files/stat': {
        const at = path();
        return sendJson(
          response,
          onFile(at, () => describeFile(at, system, query.get('details') === 'true')),
        );
      }
      case 'POST /files/directories':
        return sendJson(response, makeDirectory(path(), system));
      case 'POST /files/move':
        return sendJson(response, await moveFile(transfer(), system));
      case 'POST /files/copy':
        return sendJson(response, await copyFile(transfer(), system));
      case 'DELETE /files': {
        return sendJson(
          response,
          await deleteFile(path(), query.get('recursive') === 'true', this.#path('.', system), system),
        );
      }
      default:
        throw new AgentError('not_found', `The agent has no ${request.method} ${pathname}.`);
    }
  }

  #path(text: string, system: FileSystem): FilePath {
    const { workspace } = this.#options;
    const path = readPath(text, workspace, system);
    if (isWithin(path, workspace)) {
      try {
        ensureWorkspace(this.#options);
      } catch {
        // The request for the file says what is at the path.
      }
    }
    return path;
  }
}

async function receiveContent(
  path: FilePath,
  mode: string | null,
  system: FileSystem,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { headers } = request;
  const open = opener(request, response);
  const write = {
    path,
    mode: mode === null ? undefined : Number.parseInt(mode, 8),
    headers,
    receive: (fd: number) => receiveBody(open(), response, fd),
  };
  sendJson(response, await writeContent(write, system));
}

function userOf(query: URLSearchParams): FileUser {
  const user = query.get('user') ?? 'user';
  if (user !== 'user' && user !== 'root') throw new AgentError('bad_request', 'user must be "user" or "root".');
  return user === 'root' && query.get('owner') === 'user' ? 'root:user' : user;
}

function attemptOf(query: URLSearchParams): ArchiveAttempt | undefined {
  const runId = query.get('runId');
  if (runId === null) return undefined;
  const attempt = Number(query.get('attempt'));
  if (!Number.isSafeInteger(attempt) || attempt < 1) {
    throw new AgentError('bad_request', 'attempt must be an integer of at least 1.');
  }
  return { runId, attempt };
}

/** Returns a function that returns the request. It first sends `100 Continue` if the client expects it. */
function opener(request: IncomingMessage, response: ServerResponse): () => IncomingMessage {
  return () => {
    if (request.headers.expect !== undefined) response.writeContinue();
    return request;
  };
}

function listingOf(query: URLSearchParams): Listing {
  const [depth, limit] = ['depth', 'limit'].map((name) => Number(query.get(name)));
  if (!depth || !limit) throw new AgentError('bad_request', 'A listing requires a depth and a limit.');
  return {
    depth,
    limit,
    hasDetails: query.get('details') === 'true',
    marksUnlisted: query.get('marksUnlisted') === 'true',
  };
}

function sendJson(response: ServerResponse, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
