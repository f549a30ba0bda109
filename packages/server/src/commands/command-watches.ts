import type { CommandId } from '@cloche/contract';
import { BackOff } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { Loop } from '../base/loop.ts';
import type { LiveServers } from '../db/live-servers.ts';
import { type AgentCommands, AgentError } from '../driver/runtime-driver.ts';
import type { Executions } from '../sandboxes/record/executions.ts';
import { isLive, type SandboxRecord } from '../sandboxes/record/sandbox.ts';
import type { SandboxRepository } from '../sandboxes/record/sandbox-repository.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { type CommandRecord, endingOf, lostEnding } from './command.ts';
import type { CommandRepository } from './command-repository.ts';

/** Pauses between requests to an agent that does not answer. */
const PAUSES = { firstMs: 500, longestMs: 30_000 };
/** How often a server that is not alone looks for commands of servers that have ended. */
const TAKE_OVER_MS = 1_000;

export interface CommandWatchesDeps {
  readonly commands: CommandRepository;
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly servers: LiveServers;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Waits for the end of each background command. Keeps its sandbox `running` until then, and its record up to date.
 * Holds one request to the agent per command, which the agent answers when the command ends. The row of a command has the
 * server that watches it; when that one ends, another server takes the watch over.
 */
export class CommandWatches {
  readonly #deps: CommandWatchesDeps;
  readonly #watched = new Map<CommandId, AbortController>();
  #loop: Loop | undefined;

  constructor(deps: CommandWatchesDeps) {
    this.#deps = deps;
  }

  /**
   * Watches the commands that an earlier process of this server watched, and, if `isAlone` is false, those of other servers
   * once these have ended.
   */
  async start(isAlone: boolean): Promise<void> {
    await this.#takeOver(this.#deps.servers.own);
    if (isAlone) return;
    const takeOver = () => this.#takeOver().then(() => TAKE_OVER_MS);
    this.#loop = new Loop('take over commands', takeOver, TAKE_OVER_MS, this.#deps.log);
  }

  /** Stops the watches, which other servers, or the next start, take over. */
  async stop(): Promise<void> {
    const { commands, servers } = this.#deps;
    await this.#loop?.stop();
    for (const controller of this.#watched.values()) controller.abort();
    await commands.releaseWatches(servers.own);
  }

  async #takeOver(earlier?: string): Promise<void> {
    const { commands, sandboxes, servers, clock } = this.#deps;
    for (const record of await commands.listUnwatched(clock.now(), earlier)) {
      if (this.#watched.has(record.id) || !(await commands.claimWatch(record, servers.own))) continue;
      const sandbox = await sandboxes.find(record.sandboxId);
      if (sandbox) this.watch(sandbox, { ...record, watchedBy: servers.own });
    }
  }

  watch(sandbox: SandboxRecord, record: CommandRecord): void {
    if (this.#watched.has(record.id)) return;
    const controller = new AbortController();
    this.#watched.set(record.id, controller);
    // `#follow` logs its errors and never rejects.
    void this.#follow(sandbox, record, controller).finally(() => this.#watched.delete(record.id));
  }

  async #follow(sandbox: SandboxRecord, record: CommandRecord, controller: AbortController): Promise<void> {
    const { commands, executions, servers, log } = this.#deps;
    const { signal } = controller;
    // When the sandbox ends, the command counts as killed without a write to its record: see `seenIn`.
    using _ = executions.begin(sandbox.id, undefined, () => controller.abort());
    const backOff = new BackOff(PAUSES);
    while (!signal.aborted) {
      try {
        // A repeated request adopts a command of another server.
        if (record.watchedBy !== servers.own) await commands.claimWatch(record, servers.own);
        if (await this.#awaitEnd(sandbox, record, signal)) return;
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, sandboxId: sandbox.id, commandId: record.id }, 'a command could not be watched');
      }
      const now = await this.#deps.sandboxes.find(sandbox.id).catch(() => sandbox);
      if (!now || !isLive(now)) return;
      await backOff.pause(signal);
    }
  }

  async #awaitEnd(sandbox: SandboxRecord, record: CommandRecord, signal: AbortSignal): Promise<boolean> {
    const { commands, sandboxUse, clock } = this.#deps;
    if (!sandbox.instance) return true;
    const agent = await sandboxUse.connect(sandbox, signal);
    try {
      const ending = endingOf(record, await agent.commands.end(record.id, signal), clock.now());
      if (ending) await commands.finish(record, ending);
      return ending !== undefined;
    } catch (error) {
      if (!isUnknown(error)) throw error;
      if (await this.#startedMeanwhile(agent.commands, record, signal)) return false;
      await commands.finish(record, lostEnding(record, 'The command never started.', clock.now()));
      return true;
    }
  }

  /** If not, the command never starts: its server may only have stood still, and go on when the command counts as lost. */
  async #startedMeanwhile(agent: AgentCommands, { id }: CommandRecord, signal: AbortSignal): Promise<boolean> {
    try {
      await agent.prevent(id, signal);
      return true;
    } catch (error) {
      if (isUnknown(error)) return false;
      throw error;
    }
  }
}

function isUnknown(error: unknown): boolean {
  return error instanceof AgentError && error.kind === 'not_found';
}
