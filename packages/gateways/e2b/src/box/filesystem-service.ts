import { create } from '@bufbuild/protobuf';
import type { FileEntry, FileEvent, FileUser } from '@cloche/contract';
import { basicCredentials } from '@cloche/kit';
import { isClocheError, type WatchOptions } from '@cloche/sdk';
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { E2bDeps } from '../e2b-deps.ts';
import {
  type EntryInfo,
  EventType,
  type Filesystem,
  type FilesystemEvent,
  FilesystemEventSchema,
} from '../generated/filesystem/filesystem_pb.js';
import { type BoxSession, openSession, pathOf, rightsOf, userOf } from './box-session.ts';
import { answering, CALL_SIGNAL, streaming } from './connect-error.ts';
import { entryInfo } from './entry-info.ts';
import { ENTRIES, entriesIn } from './listed-entries.ts';
import { UNTIL_PAUSE } from './paused-box.ts';
import { Watchers } from './watchers.ts';

type Implementation = ServiceImpl<typeof Filesystem>;

/** Answers the calls about files, with the files of `/v1`. */
export function filesystemService(deps: E2bDeps): Implementation {
  const open = ({ requestHeader }: HandlerContext) => {
    const user = userOf(basicCredentials(requestHeader.get('authorization') ?? undefined)?.name);
    return {
      session: openSession(Object.fromEntries(requestHeader), deps),
      user: rightsOf(user),
      at: (path: string) => pathOf(path, user),
    };
  };
  const watchers = new Watchers();
  return {
    stat: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      return { entry: entryInfo(await detailsOf(session, at(path), user)) };
    }),
    makeDir: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      const existing = await findEntry(session, at(path), user);
      if (existing) throw new ConnectError(`${existing.path} already exists.`, Code.AlreadyExists);
      return { entry: entryInfo(await session.files.makeDirectory(at(path), { user })) };
    }),
    move: answering(async ({ source, destination }, context) => {
      const { session, user, at } = open(context);
      const moved = await session.files.move(at(source), at(destination), { user, overwrite: true });
      return { entry: entryInfo(await detailsOf(session, moved.path, user)) };
    }),
    listDir: answering(async ({ path, depth }, context) => {
      const { session, user, at } = open(context);
      const { cloche, sandboxId } = session;
      const query = { path: at(path), user, depth: Math.max(1, depth), details: true };
      const signal = context.values.get(CALL_SIGNAL);
      const { body } = await cloche.download('listFiles', { params: { sandboxId }, query, ...(signal && { signal }) });
      if (body) context.values.set(ENTRIES, infosOf(entriesIn(body)));
      return {};
    }),
    remove: answering(async ({ path }, context) => {
      const { session, user, at } = open(context);
      await session.files.remove(at(path), { user, recursive: true }).catch((error: unknown) => {
        if (!isMissingFile(error)) throw error;
      });
      return {};
    }),
    watchDir: streaming(async function* ({ path, recursive, includeEntry }, context) {
      const { session, user, at } = open(context);
      const directory = at(path);
      await requireDirectory(session, directory, user);
      const changes = await openWatch(session, directory, { user, recursive, signal: context.signal });
      yield { event: { case: 'start' as const, value: {} } };
      const told = { session, directory, user, includeEntry };
      for await (const change of changes) {
        for await (const value of eventsOf(change, told)) yield { event: { case: 'filesystem' as const, value } };
      }
    }),
    createWatcher: answering(async ({ path, recursive, includeEntry }, context) => {
      const { session, user, at } = open(context);
      const directory = at(path);
      await requireDirectory(session, directory, user);
      const watch = (signal: AbortSignal) => openWatch(session, directory, { user, recursive, signal });
      const told = { session, directory, user, includeEntry };
      return { watcherId: await watchers.open(session.sandboxId, watch, (change) => eventsOf(change, told)) };
    }),
    getWatcherEvents: answering(async ({ watcherId }, context) => {
      const { session } = open(context);
      return { events: await watchers.take(session.sandboxId, watcherId) };
    }),
    removeWatcher: answering(async ({ watcherId }, context) => {
      const { session } = open(context);
      watchers.close(session.sandboxId, watcherId);
      return {};
    }),
  };
}

async function* infosOf(entries: AsyncIterable<FileEntry>): AsyncGenerator<EntryInfo, void> {
  for await (const entry of entries) yield entryInfo(entry);
}

/** Returns an entry with its attributes, and with what a link leads to. */
async function detailsOf({ cloche, sandboxId }: BoxSession, path: string, user: FileUser): Promise<FileEntry> {
  const query = { path, user, details: true };
  return (await cloche.call('statFile', { params: { sandboxId }, query })).file;
}

async function findEntry(session: BoxSession, path: string, user: FileUser): Promise<FileEntry | undefined> {
  try {
    return await detailsOf(session, path, user);
  } catch (error) {
    if (isMissingFile(error)) return undefined;
    throw error;
  }
}

function isMissingFile(error: unknown): boolean {
  return isClocheError(error, 'not_found') && error.details?.resource !== 'sandbox';
}

async function requireDirectory(session: BoxSession, path: string, user: FileUser): Promise<void> {
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
  const changes = files.watch(directory, { ...options, ...UNTIL_PAUSE, onOpen: open.resolve });
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

interface Told {
  readonly session: BoxSession;
  readonly directory: string;
  readonly user: FileUser;
  readonly includeEntry: boolean;
}

/**
 * Yields E2B's events for a change; none if E2B has none. A file that appears with content was created, given to its
 * user and written, as by E2B's own service. Names are relative to the watched directory.
 */
async function* eventsOf(change: FileEvent, told: Told): AsyncGenerator<FilesystemEvent> {
  const { session, directory, user, includeEntry } = told;
  const { type, data } = change;
  const event = eventOf(change);
  if (event === undefined || !('path' in data)) return;
  const looks = type === 'created' || (includeEntry && type === 'modified');
  // It may be gone again, and so may the sandbox, which the watch itself then reports.
  const found = looks ? await findEntry(session, data.path, user).catch(() => undefined) : undefined;
  const name = data.path.startsWith(`${directory}/`) ? data.path.slice(directory.length + 1) : data.path;
  const entry = includeEntry && found ? { entry: entryInfo(found) } : {};
  yield create(FilesystemEventSchema, { name, type: event, ...entry });
  const isWritten = type === 'created' && found?.type === 'file' && found.sizeBytes > 0;
  if (!isWritten) return;
  for (const further of [EventType.CHMOD, EventType.WRITE])
    yield create(FilesystemEventSchema, { name, type: further, ...entry });
}

function eventOf(change: FileEvent): EventType | undefined {
  switch (change.type) {
    case 'created':
      return EventType.CREATE;
    case 'modified':
      return change.data.attributesOnly ? EventType.CHMOD : EventType.WRITE;
    case 'deleted':
      return change.data.movedTo === undefined ? EventType.REMOVE : EventType.RENAME;
    default:
      return undefined;
  }
}
