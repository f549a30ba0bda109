import type { BigIntStats, FSWatcher } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { AgentFileEvent } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { onFile, PermissionDeniedError, shown, toFileError } from './file-error.ts';
import { type FilePath, joined, textOf } from './file-path.ts';
import { differsInAttributes, type FileState, isSameFile, stateOf } from './file-state.ts';
import type { FileSystem } from './file-system.ts';
import { namesIn } from './list-files.ts';
import { isTemporary } from './temporary.ts';

/** Time within which equal changes of one file are reported as one. */
const GATHER_MS = 50;
/** Most changes that wait to be reported. Beyond that, the client gets an `overflow` event instead. */
const MAX_PENDING = 1_000;
/** Most directories of one watch, because each takes kernel memory. */
const MAX_DIRECTORIES = 2_000;
/** Unsent bytes from which a client gets no more events until it has caught up. */
const CONGESTED_BYTES = 256 * 1024;

type Change = Exclude<AgentFileEvent, { type: 'overflow' | 'ended' }>;

/** A change that waits to be reported. */
interface Pending {
  readonly type: Change['type'];
  readonly path: FilePath;
  /** State of the file that was deleted. */
  readonly state?: FileState | undefined;
  /** The file that had this name before, which may have been moved. */
  replaced?: FileState | undefined;
  /** Path of the file now, if it was moved. */
  movedTo?: FilePath;
  /** Whether only attributes have changed. */
  attributesOnly?: boolean;
}

/** Sends the changes in `folder`, and below it if `recursive`, one event a line. Ends with the folder or the client. */
export async function sendChanges(
  folder: FilePath,
  recursive: boolean,
  system: FileSystem,
  response: ServerResponse,
): Promise<void> {
  const found = onFile(folder, () => system.stat(folder));
  if (!found.isDirectory())
    throw new AgentError('conflict', `${shown(folder)} is not a directory; watch its parent directory.`);
  const watching = new Watching(folder, recursive, system, response);
  response.once('close', () => watching.close());
  await watching.begin().catch((error: unknown) => {
    throw toFileError(error, folder);
  });
  response.setHeader('content-type', 'application/x-ndjson');
  response.flushHeaders();
  watching.report();
}

class Watching {
  readonly #root: FilePath;
  readonly #recursive: boolean;
  readonly #system: FileSystem;
  readonly #response: ServerResponse;
  readonly #watchers = new Map<FilePath, FSWatcher>();
  /** Files that are known to exist. Tells a new file from a changed one. */
  readonly #known = new Map<FilePath, FileState>();
  /** In the order of the changes. */
  #pending: Pending[] = [];
  /** The latest of them for each path. */
  readonly #latest = new Map<FilePath, Pending>();
  #missed = false;
  #timer: NodeJS.Timeout | undefined;
  /** Events wait until all folders are watched, because a folder that cannot be watched makes the response an error. */
  #isReporting = false;
  #isClosed = false;

  constructor(root: FilePath, recursive: boolean, system: FileSystem, response: ServerResponse) {
    this.#root = root;
    this.#recursive = recursive;
    this.#system = system;
    this.#response = response;
  }

  async begin(): Promise<void> {
    await this.#watch(this.#root, false);
  }

  /** Sends the changes since the watch began, and from now on. */
  report(): void {
    this.#isReporting = true;
    if (!this.#find(this.#root)?.isDirectory()) this.#end();
    else this.#flush();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  /** @param isNew whether the folder appeared during the watch. Its entries are then reported as new. */
  async #watch(folder: FilePath, isNew: boolean): Promise<void> {
    if (this.#isClosed || this.#watchers.has(folder)) return;
    if (this.#watchers.size >= MAX_DIRECTORIES) {
      if (!isNew)
        throw new AgentError(
          'too_many',
          `${shown(this.#root)} has more than ${MAX_DIRECTORIES} directories; watch a subdirectory.`,
        );
      this.#miss();
      return;
    }
    const watcher = this.#open(folder);
    watcher.on('error', () => this.#forget(folder));
    this.#watchers.set(folder, watcher);
    // Listed after the watch has begun, so that no new entry is missed. At worst one is reported twice.
    for (const name of await namesIn(folder, this.#system, MAX_DIRECTORIES * 100)) {
      const path = joined(folder, name);
      const found = this.#find(path);
      if (!found) continue;
      if (isNew && !this.#known.has(path)) this.#tell({ path, type: 'created' });
      this.#known.set(path, stateOf(found));
      if (found.isDirectory() && this.#recursive) await this.#watch(path, isNew).catch(ignoreGone(isNew));
    }
  }

  /**
   * Watches one folder. Throws `conflict` if the sandbox's programs, which share the inotify limits, have used them
   * up.
   */
  #open(folder: FilePath): FSWatcher {
    try {
      return this.#system.watch(folder, (name) => this.#look(folder, name));
    } catch (error) {
      if (!['EMFILE', 'ENOSPC'].includes(codeOf(error) ?? '')) throw error;
      const reason = 'programs in the sandbox use all of its inotify instances or watches; end some of them';
      throw new AgentError('conflict', `${shown(folder)} cannot be watched: ${reason}.`);
    }
  }

  /** Handles a notification about `name`. Looks at the file to find out what has changed. */
  #look(folder: FilePath, name: Buffer | null): void {
    if (!this.#find(this.#root)?.isDirectory()) this.#end();
    else if (name === null) this.#miss();
    else if (!isTemporary(name.toString('latin1'))) this.#compare(joined(folder, name.toString('latin1')));
  }

  #compare(path: FilePath): void {
    const found = this.#find(path);
    const before = this.#known.get(path);
    if (!found) {
      // A watched folder reports its own deletion too, under its own name. That second report is ignored.
      if (!this.#known.delete(path)) return;
      this.#forget(path);
      this.#tell({ path, type: 'deleted', state: before });
      return;
    }
    const state = stateOf(found);
    this.#known.set(path, state);
    const left = this.#pending.findLast((each) => each.state !== undefined && isSameFile(each.state, state));
    if (left) left.movedTo ??= path;
    const other = this.#takeMoved(path, state);
    const isNew = before === undefined || (left !== undefined && !isSameFile(before, state));
    const attributesOnly = before !== undefined && differsInAttributes(before, state);
    if (isNew) this.#tell({ path, type: 'created' });
    else if (attributesOnly) this.#tell({ path, type: 'modified', attributesOnly });
    else if (!found.isDirectory()) {
      const replaced = before.ino === state.ino ? undefined : before;
      this.#tell({ path, type: 'modified', replaced });
    }
    if (other) this.#tell(other);
    if (isNew && found.isDirectory() && this.#recursive)
      this.#watch(path, true).catch((error) => error instanceof PermissionDeniedError || this.#miss());
  }

  /**
   * Corrects what was told of a name that has another file now, if its earlier one turns up at `path`. Returns what is to
   * be told of the other file afterwards.
   */
  #takeMoved(path: FilePath, state: FileState): Pending | undefined {
    const at = this.#pending.findLastIndex(({ replaced }) => replaced !== undefined && isSameFile(replaced, state));
    const told = this.#pending[at];
    if (!told || told.path === path) return undefined;
    this.#pending.splice(at, 1, { path: told.path, type: 'deleted', movedTo: path });
    this.#latest.delete(told.path);
    return { path: told.path, type: 'created' };
  }

  #forget(folder: FilePath): void {
    for (const [path, watcher] of this.#watchers) {
      if (path !== folder && !path.startsWith(`${folder}/`)) continue;
      watcher.close();
      this.#watchers.delete(path);
    }
    for (const path of this.#known.keys()) if (path.startsWith(`${folder}/`)) this.#known.delete(path);
  }

  #tell(change: Pending): void {
    const before = this.#latest.get(change.path);
    const isMerged = before && (before.type === 'modified' || (before.type === 'created' && !change.replaced));
    if (change.type === 'modified' && isMerged) {
      // The file has changed since it was created, or once more. A change of its content tells more.
      if (before.attributesOnly && !change.attributesOnly) before.attributesOnly = false;
      before.replaced ??= change.replaced;
      return;
    }
    if (this.#pending.length >= MAX_PENDING) {
      this.#miss();
      return;
    }
    this.#pending.push(change);
    this.#latest.set(change.path, change);
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  #miss(): void {
    this.#missed = true;
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    if (this.#isClosed || !this.#isReporting) return;
    if (this.#response.writableLength > CONGESTED_BYTES) {
      this.#response.once('drain', () => this.#flush());
      return;
    }
    const events: AgentFileEvent[] = this.#pending.map(({ type, path, movedTo, attributesOnly }) => ({
      type,
      path: textOf(path),
      ...(movedTo !== undefined && { movedTo: textOf(movedTo) }),
      ...(attributesOnly && { attributesOnly }),
    }));
    this.#pending = [];
    this.#latest.clear();
    if (this.#missed) events.push({ type: 'overflow' });
    this.#missed = false;
    for (const event of events) this.#response.write(`${JSON.stringify(event)}\n`);
  }

  /** Returns the status of the file at `path`; undefined if it does not exist or the client may not see it. */
  #find(path: FilePath): BigIntStats | undefined {
    try {
      return this.#system.findLink(path);
    } catch {
      return undefined;
    }
  }

  #end(): void {
    if (this.#isClosed || !this.#isReporting) return;
    clearTimeout(this.#timer);
    this.#flush();
    this.#response.end(`${JSON.stringify({ type: 'ended' } satisfies AgentFileEvent)}\n`);
    this.close();
  }
}

/**
 * Returns an error handler for a directory that cannot be watched. It ignores a directory that is gone or closed to the
 * user. For a directory that is not new it throws other agent errors.
 */
function ignoreGone(isNew: boolean): (error: unknown) => void {
  return (error) => {
    if (!isNew && error instanceof AgentError && !(error instanceof PermissionDeniedError)) throw error;
  };
}
