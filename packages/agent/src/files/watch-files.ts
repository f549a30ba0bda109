import type { FSWatcher } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { AgentFileEvent } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { onFile, PermissionDeniedError, shown, toFileError } from './file-error.ts';
import { type FilePath, joined, textOf } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { namesIn } from './list-files.ts';
import { isTemporary } from './temporary.ts';

/** Time within which the changes of one file are reported as one. */
const GATHER_MS = 50;
/** Most changes that wait to be reported. Beyond that, the client gets an `overflow` event instead. */
const MAX_PENDING = 1_000;
/** Most directories of one watch, because each takes kernel memory. */
const MAX_DIRECTORIES = 2_000;
/** Unsent bytes from which a client gets no more events until it has caught up. */
const CONGESTED_BYTES = 256 * 1024;

type Change = 'created' | 'modified' | 'deleted';

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
  readonly #known = new Set<FilePath>();
  readonly #pending = new Map<FilePath, Change>();
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
    if (this.#kindOf(this.#root) !== 'directory') this.#end();
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
      const isDirectory = this.#kindOf(path) === 'directory';
      if (isNew) this.#tell(path, 'created');
      this.#known.add(path);
      if (isDirectory && this.#recursive) await this.#watch(path, isNew).catch(ignoreGone(isNew));
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
    if (this.#kindOf(this.#root) !== 'directory') this.#end();
    else if (name === null) this.#miss();
    else if (!isTemporary(name.toString('latin1'))) this.#compare(joined(folder, name.toString('latin1')));
  }

  #compare(path: FilePath): void {
    const kind = this.#kindOf(path);
    if (kind === 'nothing') {
      // A watched folder reports its own deletion too, under its own name. That second report is ignored.
      if (!this.#known.delete(path)) return;
      this.#forget(path);
      this.#tell(path, 'deleted');
      return;
    }
    const isNew = !this.#known.has(path);
    this.#known.add(path);
    if (isNew || kind !== 'directory') this.#tell(path, isNew ? 'created' : 'modified');
    if (isNew && kind === 'directory' && this.#recursive)
      this.#watch(path, true).catch((error) => error instanceof PermissionDeniedError || this.#miss());
  }

  #forget(folder: FilePath): void {
    for (const [path, watcher] of this.#watchers) {
      if (path !== folder && !path.startsWith(`${folder}/`)) continue;
      watcher.close();
      this.#watchers.delete(path);
    }
    for (const path of this.#known) if (path.startsWith(`${folder}/`)) this.#known.delete(path);
  }

  #tell(path: FilePath, change: Change): void {
    if (this.#pending.size >= MAX_PENDING && !this.#pending.has(path)) {
      this.#miss();
      return;
    }
    const before = this.#pending.get(path);
    // Moves the path to the end, so that events are sent in the order of the latest change.
    this.#pending.delete(path);
    this.#pending.set(path, before === 'created' && change === 'modified' ? 'created' : change);
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
    const events: AgentFileEvent[] = [...this.#pending].map(([path, type]) => ({ type, path: textOf(path) }));
    this.#pending.clear();
    if (this.#missed) events.push({ type: 'overflow' });
    this.#missed = false;
    for (const event of events) this.#response.write(`${JSON.stringify(event)}\n`);
  }

  /** Returns the kind of the file at `path`: `nothing` if it does not exist or the client may not see it. */
  #kindOf(path: FilePath): 'directory' | 'other' | 'nothing' {
    try {
      const found = this.#system.findLink(path);
      if (found === undefined) return 'nothing';
      return found.isDirectory() ? 'directory' : 'other';
    } catch {
      return 'nothing';
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
