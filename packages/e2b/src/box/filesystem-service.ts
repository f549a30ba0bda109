import { create } from '@bufbuild/protobuf';
import type { FileEntry, FileEvent } from '@cloche/contract';
import { isClocheError, type WatchOptions } from '@cloche/sdk';
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { E2bDeps } from '../e2b-deps.ts';
import {
  EventType,
  type Filesystem,
  type FilesystemEvent,
  FilesystemEventSchema,
} from '../generated/filesystem/filesystem_pb.js';
import { type BoxSession, basicUser, openSession, pathOf, userOf } from './box-session.ts';
import { answering, streaming } from './connect-error.ts';
import { entryInfo } from './entry-info.ts';
import { Watchers } from './watchers.ts';

type Implementation = ServiceImpl<typeof Filesystem>;

const EVENTS: Partial<Record<FileEvent['type'], EventType>> = {
  created: EventType.CREATE,
  modified: EventType.WRITE,
  deleted: EventType.REMOVE,
};

/** Answers the calls about files, with the files of `/v1`. */
export function filesystemService(deps: E2bDeps): Implementation {
  const open = ({ requestHeader }: HandlerContext) => {
    const user = userOf(basicUser(requestHeader.get('authorization') ?? undefined));
    return {
      session: openSession(Object.fromEntries(requestHeader), deps),
      user,
      at: (path: string) => pathOf(path, user),
    };
  };
  const watchers = new Watchers();
  return {
    stat: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      return { entry: entryInfo(await session.files.stat(at(path), { user })) };
    }),
    makeDir: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      const existing = await findEntry(session, at(path), user);
      if (existing) throw new ConnectError(`${existing.path} already exists.`, Code.AlreadyExists);
      return { entry: entryInfo(await session.files.makeDirectory(at(path), { user })) };
    }),
    move: answering(async ({ source, destination }, context) => {
      const { session, user, at } = open(context);
      return { entry: entryInfo(await session.files.move(at(source), at(destination), { user, overwrite: true })) };
    }),
    listDir: answering(async ({ path, depth }, context) => {
      const { session, user, at } = open(context);
      const entries = await session.files.list(at(path), { user, depth: Math.max(1, depth) });
      return { entries: entries.map(entryInfo) };
    }),
    remove: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      await session.files.remove(at(path), { user, recursive: true });
      return {};
    }),
    watchDir: streaming(async function* ({ path, recursive, includeEntry }, context) {
      const { session, user, at } = open(context);
      const directory = at(path);
      await requireDirectory(session, directory, user);
      const changes = await openWatch(session, directory, { user, recursive, signal: context.signal });
      yield { event: { case: 'start' as const, value: {} } };
      for await (const change of changes) {
        const value = eventOf(change, directory);
        if (!value) continue;
        const entry = includeEntry && change.type !== 'deleted' ? await findChanged(session, change, user) : undefined;
        yield { event: { case: 'filesystem' as const, value: entry ? { ...value, entry: entryInfo(entry) } : value } };
      }
    }),
    createWatcher: answering(async ({ path, recursive }, context) => {
      const { session, user, at } = open(context);
      const directory = at(path);
      await requireDirectory(session, directory, user);
      const watch = (signal: AbortSignal) => openWatch(session, directory, { user, recursive, signal });
      return { watcherId: await watchers.open(session.sandboxId, watch, (change) => eventOf(change, directory)) };
    }),
    getWatcherEvents: answering(async ({ watcherId }, context) => {
      const { session } = open(context);
      return { events: watchers.take(session.sandboxId, watcherId) };
    }),
    removeWatcher: answering(async ({ watcherId }, context) => {
      const { session } = open(context);
      watchers.close(session.sandboxId, watcherId);
      return {};
    }),
  };
}

type User = ReturnType<typeof userOf>;

async function findEntry({ files }: BoxSession, path: string, user: User): Promise<FileEntry | undefined> {
  try {
    return await files.stat(path, { user });
  } catch (error) {
    if (isClocheError(error, 'not_found') && error.details?.resource !== 'sandbox') return undefined;
    throw error;
  }
}

async function requireDirectory(session: BoxSession, path: string, user: User): Promise<void> {
  const { type } = await session.files.stat(path, { user });
  if (type !== 'directory') throw new ConnectError(`${path} is not a directory.`, Code.InvalidArgument);
}

/** Resolves when all later changes will be reported: the client may change files as soon as it has its answer. */
async function openWatch(
  { files }: BoxSession,
  directory: string,
  options: WatchOptions,
): Promise<AsyncGenerator<FileEvent>> {
  const open = Promise.withResolvers<void>();
  const changes = files.watch(directory, { ...options, onOpen: open.resolve });
  const first = changes.next();
  first.catch(open.reject);
  await open.promise;
  return (async function* () {
    try {
      for (let next = await first; !next.done; next = await changes.next()) yield next.value;
    } finally {
      await changes.return();
    }
  })();
}

async function findChanged(session: BoxSession, change: FileEvent, user: User): Promise<FileEntry | undefined> {
  return 'path' in change.data ? findEntry(session, change.data.path, user) : undefined;
}

/** Returns E2B's event for a change; undefined if E2B has none. Names are relative to the watched directory. */
function eventOf({ type, data }: FileEvent, directory: string): FilesystemEvent | undefined {
  const event = EVENTS[type];
  if (event === undefined || !('path' in data)) return undefined;
  const name = data.path.startsWith(`${directory}/`) ? data.path.slice(directory.length + 1) : data.path;
  return create(FilesystemEventSchema, { name, type: event });
}
