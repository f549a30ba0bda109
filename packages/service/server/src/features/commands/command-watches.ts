import type { CommandId } from '@cloche/contract';
import { BackOff, reportTo } from '@cloche/node-support';
import { type AgentCommands, AgentError } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import type { Loop, WatchOthers } from '../../platform/base/loop.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { AwaitSandbox } from '../sandboxes/use/await-sandbox.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { type CommandRecord, endingOf, lostEnding } from './command.ts';
import type { CommandRepository } from './command-repository.ts';

/** Pauses between requests to an agent that does not answer. */
const PAUSES = { firstMs: 500, longestMs: 30_000 };
/** How often a server looks for commands whose server has ended. */
const TAKE_OVER_MS = 1_000;

export interface CommandWatchesDeps {
  readonly commands: CommandRepository;
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
  readonly awaitSandbox: Pick<AwaitSandbox, 'awake'>;
  readonly executions: Executions;
  readonly servers: LiveServers;
  readonly watchOthers: WatchOthers;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Waits for the end of each background command. Until then it keeps the sandbox `running` and the command's record up
 * to date. For each command, one request to the agent stays open until the command ends. The row of a command names the
 * server that watches it; if that server ends, another one watches the command.
 */
export class CommandWatches {
  readonly #deps: CommandWatchesDeps;
  readonly #watched = new Map<CommandId, AbortController>();
  #looking: Pick<Loop, 'stop'> | undefined;

  constructor(deps: CommandWatchesDeps) {
    this.#deps = deps;
  }

  /**
   * Watches the commands that an earlier process of this server watched, and from then on those of servers that have
   * ended.
   */
  async start(): Promise<void> {
    const { servers, watchOthers } = this.#deps;
    await this.#takeOver(servers.own);
    this.#looking = watchOthers('take over commands', () => this.#takeOver(), TAKE_OVER_MS);
  }

  /** Stops the watches. Other servers, or the next process of this one, take them over. */
  async stop(): Promise<void> {
    const { commands, servers } = this.#deps;
    await this.#looking?.stop();
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
    this.#follow(sandbox, record, controller)
      .finally(() => this.#watched.delete(record.id))
      .catch(reportTo(this.#deps.log));
  }

  async #follow(sandbox: SandboxRecord, record: CommandRecord, controller: AbortController): Promise<void> {
    const { commands, executions, servers, log } = this.#deps;
    const { signal } = controller;
    // When the sandbox ends, its commands count as killed without a write to their records: see `asSeenIn`.
    using _ = executions.begin(sandbox.id, undefined, () => controller.abort(), { isUse: false });
    const backOff = new BackOff(PAUSES);
    while (!signal.aborted) {
      try {
        // The command may belong to another server if a retry has adopted it.
        if (record.watchedBy !== servers.own) await commands.claimWatch(record, servers.own);
        if (await this.#awaitEnd(sandbox, record, signal)) return;
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, sandboxId: sandbox.id, commandId: record.id }, 'a command could not be watched');
      }
      const now = await this.#deps.sandboxes.find(sandbox.id).catch(() => sandbox);
      if (!now || factsOf(now).isOver) return;
      const isAsleep = factsOf(now).needsWake;
      const awake = isAsleep ? await this.#deps.awaitSandbox.awake(now, signal) : now;
      // It has ended with the memory of the sandbox, as its record says.
      if (awake.generation !== sandbox.generation) return;
      if (!isAsleep) await backOff.pause(signal);
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

  /**
   * Returns whether the command is known to the agent by now. If it is not, prevents its start for good: its server may
   * only have been stopped for a while, and must not start a command that counts as lost.
   */
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
