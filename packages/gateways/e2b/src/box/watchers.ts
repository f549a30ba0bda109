import { randomUUID } from 'node:crypto';
import type { FileEvent } from '@cloche/contract';
import { reportFailure } from '@cloche/node-support';
import { Code, ConnectError } from '@connectrpc/connect';
import type { FilesystemEvent } from '../generated/filesystem/filesystem_pb.js';

/** Watchers of one sandbox, and events of one watcher that wait to be taken. */
const PER_SANDBOX = 32;
const EVENTS = 10_000;
/** Longest time for which a call waits for events, and time without one after which it has all of them. */
const ARRIVE_MS = 300;
const QUIET_MS = 100;
/** A watcher ends when no client has read its events for this time. */
const IDLE_MS = 10 * 60_000;

interface Watcher {
  readonly sandboxId: string;
  readonly stop: AbortController;
  readonly events: FilesystemEvent[];
  idle: NodeJS.Timeout;
  overflowed: boolean;
  /** Called when events have arrived. */
  arrived: () => void;
}

/**
 * Watches of directories that clients poll. They exist only in this server. The load balancer passes all requests of a
 * sandbox to one server. When this server ends, the watcher is unknown, and the client opens it again.
 */
export class Watchers {
  readonly #watchers = new Map<string, Watcher>();

  /** @throws ConnectError `resource_exhausted` */
  async open(
    sandboxId: string,
    watch: (signal: AbortSignal) => Promise<AsyncIterable<FileEvent>>,
    eventsOf: (change: FileEvent) => AsyncIterable<FilesystemEvent>,
  ): Promise<string> {
    const open = [...this.#watchers.values()].filter((each) => each.sandboxId === sandboxId);
    if (open.length >= PER_SANDBOX) {
      throw new ConnectError(`A sandbox has at most ${PER_SANDBOX} watchers; remove one.`, Code.ResourceExhausted);
    }
    const id = randomUUID();
    const watcher: Watcher = {
      sandboxId,
      stop: new AbortController(),
      events: [],
      idle: this.#endWhenIdle(id),
      overflowed: false,
      arrived: () => undefined,
    };
    this.#watchers.set(id, watcher);
    try {
      const changes = await watch(watcher.stop.signal);
      collect(watcher, changes, eventsOf)
        .finally(() => this.#remove(id))
        .catch(reportFailure);
      return id;
    } catch (error) {
      this.#remove(id);
      throw error;
    }
  }

  /**
   * Returns the events since the last call. Waits a moment for them: the client may have changed a file right before, and
   * E2B's service knows of it at once.
   */
  async take(sandboxId: string, id: string): Promise<FilesystemEvent[]> {
    const watcher = this.#find(sandboxId, id);
    clearTimeout(watcher.idle);
    watcher.idle = this.#endWhenIdle(id);
    await arrivals(watcher);
    if (watcher.overflowed) {
      this.#remove(id);
      throw new ConnectError('There were too many changes; list the directory and watch it again.', Code.DataLoss);
    }
    return watcher.events.splice(0);
  }

  close(sandboxId: string, id: string): void {
    this.#find(sandboxId, id);
    this.#remove(id);
  }

  #endWhenIdle(id: string): NodeJS.Timeout {
    return setTimeout(() => this.#remove(id), IDLE_MS).unref();
  }

  #find(sandboxId: string, id: string): Watcher {
    const watcher = this.#watchers.get(id);
    if (watcher?.sandboxId === sandboxId) return watcher;
    throw new ConnectError(`There is no watcher ${id}.`, Code.NotFound);
  }

  #remove(id: string): void {
    const watcher = this.#watchers.get(id);
    if (!watcher) return;
    this.#watchers.delete(id);
    clearTimeout(watcher.idle);
    watcher.stop.abort();
  }
}

async function arrivals(watcher: Watcher): Promise<void> {
  const last = performance.now() + ARRIVE_MS;
  let isQuiet = false;
  while (!isQuiet && !watcher.overflowed) {
    const left = last - performance.now();
    const limit = watcher.events.length === 0 ? left : Math.min(left, QUIET_MS);
    isQuiet = limit <= 0 || !(await arrivesWithin(watcher, limit));
  }
}

/** Returns whether events arrive in this time. */
async function arrivesWithin(watcher: Watcher, limitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  watcher.arrived = () => resolve(true);
  const patience = setTimeout(() => resolve(false), limitMs);
  return promise.finally(() => clearTimeout(patience));
}

/** A watch that fails ends its watcher: the client learns it at its next call. */
async function collect(
  watcher: Watcher,
  changes: AsyncIterable<FileEvent>,
  eventsOf: (change: FileEvent) => AsyncIterable<FilesystemEvent>,
): Promise<void> {
  try {
    for await (const change of changes) {
      if (change.type === 'overflow' || watcher.events.length >= EVENTS) watcher.overflowed = true;
      else {
        const events = await Array.fromAsync(eventsOf(change));
        watcher.events.push(...events);
        if (events.length > 0) watcher.arrived();
      }
    }
  } catch {
    // The sandbox or the directory is gone, or the watcher was removed.
  }
}
