import type { SandboxId } from '@cloche/contract';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';

/** Tracks the pauses and wakes that this process performs: at most one at a time for a sandbox. */
export class MovesUnderWay {
  readonly #servers: LiveServers;
  readonly #own = new Map<SandboxId, Promise<unknown>>();

  constructor(servers: LiveServers) {
    this.#servers = servers;
  }

  /** Returns whether this process performs a move of the sandbox. */
  has(id: SandboxId): boolean {
    return this.#own.has(id);
  }

  /** Performs a move. Returns undefined, when it is over, if another one of the sandbox is under way. */
  async perform<T>(id: SandboxId, act: () => Promise<T>): Promise<T | undefined> {
    const underWay = this.#own.get(id);
    if (underWay) {
      await underWay.catch(() => undefined);
      return undefined;
    }
    const performed = act().finally(() => this.#own.delete(id));
    this.#own.set(id, performed);
    return performed;
  }

  /** Returns whether no server performs the move that the record is in. Read the record before this call. */
  async isAbandoned({ id, pauseOwner }: SandboxRecord): Promise<boolean> {
    if (pauseOwner === this.#servers.own) return !this.#own.has(id);
    return pauseOwner === undefined || !(await this.#servers.others()).has(pauseOwner);
  }

  /** Resolves when all moves of this process are over. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#own.values());
  }
}
