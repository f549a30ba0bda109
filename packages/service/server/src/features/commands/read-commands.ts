import type { Command, CommandEvent, CommandId, CommandLogEntry, CommandLogPage, SandboxId } from '@cloche/contract';
import { Deadline, pause } from '@cloche/node-support';
import type { AgentLogEntry } from '@cloche/protocol';
import { type AgentCommands, AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError, notFound } from '../../platform/base/app-error.ts';
import { type Clock, timestamp } from '../../platform/base/clock.ts';
import type { Call } from '../../platform/call/call.ts';
import type { List } from '../../platform/db/list.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { ActBounds, SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { asSeenIn, type CommandRecord, endingOf, killedEnding, lostEnding, toCommand } from './command.ts';
import type { CommandRepository } from './command-repository.ts';
import type { StartingCommands } from './starting-commands.ts';

/** Pause between requests for a command that is about to start. */
const STARTING_LOOK_MS = 250;

export interface ReadCommandsDeps {
  readonly access: SandboxAccess;
  readonly commands: CommandRepository;
  readonly startingCommands: StartingCommands;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly servers: LiveServers;
  readonly clock: Clock;
}

/** Names a command. */
export interface CommandPath {
  readonly sandboxId: SandboxId;
  readonly commandId: CommandId;
}

/** An operation on the commands of a sandbox's agent. */
type ActOnCommands<T> = (agent: AgentCommands, signal: AbortSignal) => Promise<T>;

/** A command and its sandbox, after the check that the key may access them. */
export interface FoundCommand {
  readonly sandbox: SandboxRecord;
  readonly record: CommandRecord;
}

/** Reads commands and their output. Updates the record of a running command before returning it. */
export class ReadCommands {
  readonly #deps: ReadCommandsDeps;

  constructor(deps: ReadCommandsDeps) {
    this.#deps = deps;
  }

  /** Opens the list of the commands of a sandbox, oldest first. */
  async list({ credential }: Call, sandboxId: SandboxId): Promise<List<CommandRecord, Command>> {
    const sandbox = await this.#deps.access.get(credential, sandboxId);
    return {
      read: (part) => this.#deps.commands.list(sandbox.id, part),
      placeOf: ({ startedAt, id }) => [startedAt, id],
      show: (records) => Promise.all(records.map(async (record) => toCommand(await this.refresh({ sandbox, record })))),
    };
  }

  /** Returns the command. With `waitMs`, waits until the command has ended or the time has passed. */
  async get(call: Call, params: CommandPath, waitMs: number): Promise<Command> {
    const found = await this.find(call, params);
    const record = await this.refresh(found);
    if (record.status !== 'running' || waitMs === 0 || factsOf(found.sandbox).needsWake) return toCommand(record);
    using limit = new Deadline(waitMs, call.signal);
    const wait = (agent: AgentCommands) => agent.end(record.id, limit.signal);
    return toCommand(await this.#update(found, { signal: limit.signal }, wait));
  }

  /** @throws AppError `sandbox_destroyed` or `sandbox_failed`: the output is deleted with the sandbox. */
  async logs(
    call: Call,
    params: CommandPath,
    { afterSeq, limit }: { readonly afterSeq: number; readonly limit: number },
  ): Promise<CommandLogPage> {
    const { sandbox, record } = await this.find(call, params);
    const awake = await this.#deps.sandboxUse.awake(requireLive(sandbox), call.signal);
    const bounds = { signal: call.signal, actMs: AGENT_LIMITS.askMs };
    const ask = (agent: AgentCommands, signal: AbortSignal) => agent.readLog(record.id, afterSeq, limit, signal);
    using _ = this.#deps.executions.use(awake.id);
    // The agent keeps only the latest commands.
    const page = (await this.act(awake, bounds, ask)) ?? { entries: [], hasMore: false };
    const data = page.entries.map(toEntry);
    return { data, nextSeq: data.at(-1)?.seq ?? afterSeq, hasMore: page.hasMore };
  }

  /** Resolves when the command is found. Ending the iteration does not affect the command. */
  async follow(call: Call, params: CommandPath, afterSeq: number): Promise<AsyncGenerator<CommandEvent, void>> {
    const { sandbox, record } = await this.find(call, params);
    const awake = await this.#deps.sandboxUse.awake(requireLive(sandbox), call.signal);
    return this.#events({ sandbox: awake, record }, afterSeq, call.signal);
  }

  /** @throws AppError `not_found`. */
  async find({ credential }: Call, params: CommandPath): Promise<FoundCommand> {
    const sandbox = await this.#deps.access.get(credential, params.sandboxId);
    const record = await this.#deps.commands.find(sandbox.id, params.commandId);
    if (!record) throw notFound('command', params.commandId);
    return { sandbox, record };
  }

  /** Returns the record with its current status, or its last known status if the agent cannot answer. */
  async refresh(found: FoundCommand): Promise<CommandRecord> {
    const seen = asSeenIn(found.sandbox, found.record);
    // In a paused sandbox, a command stays as it is.
    if (factsOf(found.sandbox).needsWake) return seen;
    if (seen.status !== 'running' || this.#deps.startingCommands.has(seen.id)) return seen;
    return this.#update(found, { actMs: AGENT_LIMITS.askMs }, (agent, signal) => agent.get(seen.id, signal));
  }

  /** Returns undefined if the agent does not have the command, or has it no longer. @throws AppError */
  async act<T>(sandbox: SandboxRecord, bounds: ActBounds, act: ActOnCommands<T>): Promise<T | undefined> {
    return this.#deps.sandboxUse.ifReady(sandbox, bounds, ({ commands }, _, signal) =>
      act(commands, signal).catch((error: unknown) => {
        if (error instanceof AgentError && error.kind === 'not_found') return undefined;
        throw error;
      }),
    );
  }

  async #update(
    { sandbox, record }: FoundCommand,
    bounds: ActBounds,
    ask: ActOnCommands<Awaited<ReturnType<AgentCommands['get']>>>,
  ): Promise<CommandRecord> {
    const { commands, clock } = this.#deps;
    try {
      let known = await this.act(sandbox, bounds, ask);
      if (!known && (await this.#mayBeStarting(record))) return record;
      // The server of the command may only have been stopped for a while. It must not start a command that is recorded
      // as lost.
      known ??= await this.act(sandbox, bounds, (agent, signal) => agent.prevent(record.id, signal));
      const ending = known
        ? endingOf(record, known, clock.now())
        : lostEnding(record, 'The sandbox no longer has the command.', clock.now());
      return ending ? await commands.finish(record, ending) : record;
    } catch (error) {
      if (!(error instanceof AppError)) return record;
      const isOver = error.code === 'sandbox_destroyed' || error.code === 'sandbox_failed';
      return isOver ? { ...record, ...killedEnding(record, clock.now()) } : record;
    }
  }

  /** Returns whether a server may be about to start a command that the agent does not have yet. */
  async #mayBeStarting({ id, watchedBy, startedAt }: CommandRecord): Promise<boolean> {
    const { servers, startingCommands, clock } = this.#deps;
    if (startingCommands.has(id)) return true;
    if (watchedBy === undefined || watchedBy === servers.own) return false;
    return clock.now() - startedAt < AGENT_LIMITS.startMs && (await servers.others()).has(watchedBy);
  }

  async *#events(found: FoundCommand, afterSeq: number, signal: AbortSignal) {
    const { sandbox, record } = found;
    const { sandboxUse, commands, clock } = this.#deps;
    while (sandbox.instance && !signal.aborted) {
      try {
        const agent = await sandboxUse.connect(sandbox, signal);
        for await (const event of agent.commands.follow(record.id, afterSeq, signal)) {
          this.#deps.executions.touch(sandbox.id);
          if (event.type === 'log') yield { type: 'log', data: toEntry(event.entry) } as const;
          else {
            const ending = endingOf(record, event.command, clock.now());
            const ended = ending ? await commands.finish(record, ending) : record;
            yield { type: 'exit', data: toCommand(ended) } as const;
          }
        }
        return;
      } catch (error) {
        const isUnknown = error instanceof AgentError && error.kind === 'not_found' && !signal.aborted;
        if (!isUnknown) throw await sandboxUse.explain(sandbox, error, signal);
      }
      const now = await this.refresh(found);
      if (now.status !== 'running') {
        yield { type: 'exit', data: toCommand(now) } as const;
        return;
      }
      // The command is about to start.
      await pause(STARTING_LOOK_MS, signal);
    }
  }
}

function toEntry({ seq, stream, data, at }: AgentLogEntry): CommandLogEntry {
  return { seq, stream, data, at: timestamp(Math.min(at, MAX_TIME)) };
}

/** The latest time that a `Date` can represent. */
const MAX_TIME = 8_640_000_000_000_000;
