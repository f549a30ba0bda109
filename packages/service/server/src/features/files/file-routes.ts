import {
  type ArchiveFormat,
  type FileEntry,
  type FileEvent,
  LIMITS,
  operations,
  type TransferFileBody,
} from '@cloche/contract';
import type { AgentFile, AgentFileEvent } from '@cloche/protocol';
import type { FileContent, FileTransfer } from '@cloche/runtime/agent-files';
import { timestamp } from '../../platform/base/clock.ts';
import type { Place } from '../../platform/db/list-part.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import {
  type Download,
  downloadRoute,
  type Route,
  route,
  streamRoute,
  uploadRoute,
} from '../../platform/http/route.ts';
import { wholeList } from '../../platform/http/spooled-list.ts';
import type { AccessFiles } from './access-files.ts';
import { requireAttributes } from './file-attributes.ts';

const ARCHIVE_TYPES: Readonly<Record<ArchiveFormat, string>> = {
  tar: 'application/x-tar',
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
};

export function fileRoutes(files: AccessFiles): Route[] {
  return [...contentRoutes(files), ...archiveRoutes(files), ...lookRoutes(files), ...changeRoutes(files)];
}

function contentRoutes(files: AccessFiles): Route[] {
  return [
    downloadRoute(operations.readFile, (request) =>
      files.with(request.call, request.params.sandboxId, async (agentFiles, activity) => {
        const { call, query, headers, headOnly } = request;
        const content = await agentFiles.as(query.user).read(query.path, { headers, headOnly }, call.signal);
        activity.holdUntilClosed(content.body);
        if (headOnly || content.status === 304) content.body.resume();
        return toDownload(content, headOnly);
      }),
    ),
    uploadRoute(operations.writeFile, (request) =>
      files.with(request.call, request.params.sandboxId, async (agentFiles) => {
        const { call, query, headers, upload } = request;
        requireAttributes(headers);
        const file = toEntry(
          await agentFiles.as(query.user).write(query.path, upload, { headers, mode: query.mode }, call.signal),
        );
        return { json: { file }, headers: file.etag === undefined ? {} : { etag: file.etag } };
      }),
    ),
  ];
}

function archiveRoutes(files: AccessFiles): Route[] {
  return [
    downloadRoute(operations.readArchive, (request) =>
      files.with(request.call, request.params.sandboxId, async (sandboxFiles, activity) => {
        const { path = '/workspace', format = 'tar.gz', user } = request.query;
        const agentFiles = sandboxFiles.as(user);
        if (request.headOnly) await agentFiles.stat(path, request.call.signal);
        const headers = { 'content-type': ARCHIVE_TYPES[format], 'cache-control': 'no-cache' };
        if (request.headOnly) return { status: 200, headers };
        const body = await agentFiles.archive(path, format, request.call.signal);
        activity.holdUntilClosed(body);
        return { status: 200, headers, body };
      }),
    ),
    uploadRoute(operations.writeArchive, (request) =>
      files.with(request.call, request.params.sandboxId, async (agentFiles) => {
        const { call, query, upload } = request;
        const { file, ...rest } = await agentFiles
          .as(query.user)
          .unarchive(query.path ?? '/workspace', upload, call.signal);
        return { json: { file: toEntry(file), ...rest } };
      }),
    ),
  ];
}

/** Routes that describe files. */
function lookRoutes(files: AccessFiles): Route[] {
  return [
    streamRoute(operations.watchFiles, async (request) => {
      const { path = '/workspace', recursive = false, user } = request.query;
      return toEvents(await files.watch(request.call, request.params.sandboxId, path, { recursive, user }));
    }),
    listRoute(operations.listFiles, async (request) => {
      const { path = '/workspace', depth = 1, details = false, user } = request.query;
      const options = { depth, limit: LIMITS.fileListEntries, details };
      const list = <T>(after: Place | undefined, take: (entries: AsyncIterable<AgentFile>) => Promise<T>) =>
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          take(entriesAfter(() => agentFiles.as(user).list(path, options, signal), after?.[1])),
        );
      return {
        read: ({ after, limit }) => list(after, (entries) => firstOf(entries, limit)),
        placeOf: ({ path: entry }) => ['', entry],
        show: (entries) => entries.map(toEntry),
        all: (after) => list(after, (entries) => wholeList(shown(entries), request.spool)),
      };
    }),
    route(operations.statFile, (request) => {
      const { path, details, user } = request.query;
      return answer(
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          agentFiles.as(user).stat(path, signal, details),
        ),
      );
    }),
  ];
}

/** Routes that change the tree of files. */
function changeRoutes(files: AccessFiles): Route[] {
  return [
    route(operations.makeDirectory, (request) => {
      const { path, user } = request.body;
      return answer(
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          agentFiles.as(user).makeDirectory(path, signal),
        ),
      );
    }),
    route(operations.moveFile, (request) => {
      const { user, ...transfer } = request.body;
      return answer(
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          agentFiles.as(user).move(transferOf(transfer), signal),
        ),
      );
    }),
    route(operations.copyFile, (request) => {
      const { user, ...transfer } = request.body;
      return answer(
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          agentFiles.as(user).copy(transferOf(transfer), signal),
        ),
      );
    }),
    route(operations.deleteFile, (request) => {
      const { path, recursive = false, user } = request.query;
      return answer(
        files.act(request.call, request.params.sandboxId, (agentFiles, signal) =>
          agentFiles.as(user).remove(path, { recursive }, signal),
        ),
      );
    }),
  ];
}

async function* toEvents(changes: AsyncIterable<AgentFileEvent>): AsyncGenerator<FileEvent, void> {
  for await (const event of changes) {
    if ('path' in event) yield toChange(event);
    else yield { type: event.type === 'ended' ? 'complete' : event.type, data: {} };
  }
}

type Change = Extract<AgentFileEvent, { path: string }>;

function toChange({ type, path, movedTo, attributesOnly }: Change): FileEvent {
  if (type === 'deleted') return { type, data: { path, ...(movedTo !== undefined && { movedTo }) } };
  return { type, data: { path, ...(type === 'modified' && attributesOnly && { attributesOnly }) } };
}

async function answer(file: Promise<AgentFile>): Promise<{ file: FileEntry }> {
  return { file: toEntry(await file) };
}

function transferOf({ from, to, overwrite = false }: TransferFileBody): FileTransfer {
  return { from, to, overwrite };
}

/** Yields the entries after a path; if it has gone, those that would follow it. */
async function* entriesAfter(
  list: () => AsyncIterable<AgentFile>,
  after: string | undefined,
): AsyncGenerator<AgentFile, void> {
  let isPast = after === undefined;
  for await (const entry of list()) {
    if (isPast) yield entry;
    else isPast = entry.path === after;
  }
  if (isPast || after === undefined) return;
  for await (const entry of list()) if (isAfter(entry.path, after)) yield entry;
}

async function firstOf<T>(entries: AsyncIterable<T>, limit: number): Promise<T[]> {
  const first: T[] = [];
  for await (const entry of entries) if (first.push(entry) === limit) break;
  return first;
}

async function* shown(entries: AsyncIterable<AgentFile>): AsyncGenerator<FileEntry, void> {
  for await (const entry of entries) yield toEntry(entry);
}

/** Whether `path` comes after `other` in a listing: a directory precedes its entries, whose names are ordered by bytes. */
function isAfter(path: string, other: string): boolean {
  const [one, two] = [path.split('/'), other.split('/')];
  const differs = one.findIndex((name, level) => name !== two[level]);
  return differs !== -1 && Buffer.compare(Buffer.from(one[differs] ?? ''), Buffer.from(two[differs] ?? '')) > 0;
}

export function toEntry({ path, name, type, sizeBytes, mode, uid, gid, modifiedMs, ...rest }: AgentFile): FileEntry {
  const permissions = mode.toString(8).padStart(4, '0');
  return { path, name, type, sizeBytes, mode: permissions, uid, gid, modifiedAt: timestamp(modifiedMs), ...rest };
}

function toDownload({ status, sizeBytes, etag, contentRange, body }: FileContent, headOnly: boolean): Download {
  const headers = {
    'cache-control': 'no-cache',
    ...(etag === undefined ? {} : { etag, 'accept-ranges': 'bytes' }),
    ...(sizeBytes === undefined
      ? {}
      : { 'content-type': 'application/octet-stream', 'content-length': String(sizeBytes) }),
    ...(contentRange === undefined ? {} : { 'content-range': contentRange }),
  };
  return { status, headers, ...(headOnly || status === 304 ? {} : { body }) };
}
