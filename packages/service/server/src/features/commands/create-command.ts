import { type Command, type CommandId, type CreateCommandBody, LIMITS, type SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { StartCommand } from '@cloche/protocol';
import { type AgentCommandResult, type AgentCommands, AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Logger } from 'pino';
import { AppError, unavailable } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import type { StartedWork } from '../metering/started-work.ts';
import { ownError } from '../sandbox-records/agent-failures.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import type { ActBounds, SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import {
  asSeenIn,
  type CommandOutput,
  type CommandRecord,
  endingOf,
  killedEnding,
  runningCommand,
  toCommand,
} from './command.ts';
import type { CommandRepository } from './command-repository.ts';
import { commandSpec } from './command-request.ts';
import type { CommandWatches } from './command-watches.ts';
import type { StartingCommands } from './starting-commands.ts';

export interface CreateCommandDeps {
  readonly sandboxes: SandboxRepository;
  readonly commands: CommandRepository;
  readonly startingCommands: StartingCommands;
  readonly commandWatches: CommandWatches;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly transactions: Transactions;
  readonly startedWork: StartedWork;
  readonly servers: LiveServers;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

export interface CommandCreation {
  readonly sandboxId: SandboxId;
  readonly body: CreateCommandBody;
  /** Bytes of output that the sandbox keeps. Default: `LIMITS.commandLogBytes`. */
  readonly logBytes?: number;
}

/** Starts a command through its agent, unless it is too late. @throws AppError `unavailable` */
type StartIn = (
  agent: AgentCommands,
  signal: AbortSignal,
  capture?: Pick<StartCommand, 'capture'>,
) => ReturnType<AgentCommands['start']>;

/** Starts commands, and waits for the end of foreground commands. */
export class CreateCommand {
  readonly #deps: CreateCommandDeps;

  constructor(deps: CreateCommandDeps) {
    this.#deps = deps;
  }

  /** Creates one command per idempotency record. @throws AppError */
  async create(call: Call, { sandboxId, body, logBytes }: CommandCreation): Promise<Command> {
    const { clock, startingCommands } = this.#deps;
    const { credential, receivedAt, signal } = call;
    const spec = { ...commandSpec(body), ...(logBytes === undefined ? {} : { logBytes }) };
    const background = body.background ?? false;
    const timeoutMs = body.timeoutMs ?? (background ? undefined : LIMITS.commandTimeoutDefaultMs);
    const endsAt = timeoutMs === undefined ? undefined : receivedAt + timeoutMs;
    const readyMs = (endsAt ?? receivedAt + LIMITS.commandTimeoutDefaultMs) - clock.now();
    const sandbox = await this.#deps.sandboxUse.ready({ credential, sandboxId }, { signal, readyMs });
    const takenAt = clock.now();
    startingCommands.requireOwn(takenAt);
    // The command is marked as starting before its record can be listed: a listing would find that the agent does not
    // know the command, and would count it as lost.
    using starting = new DisposableStack();
    const marked = (id: CommandId) => {
      starting.use(startingCommands.begin(id));
    };
    const record = await this.#insertOrAdopt(call, sandbox, { ...body, cwd: spec.cwd }, marked);
    if (record.status !== 'running') return await this.#repeatAnswer(call, sandbox, record);
    this.#markUsed(sandbox);
    const leftMs = endsAt === undefined ? undefined : Math.max(1, endsAt - clock.now());
    const start = { ...spec, ...(leftMs === undefined ? {} : { timeoutMs: leftMs }) };
    const startIn: StartIn = (agent, limit, capture) => {
      startingCommands.requireOwn(takenAt);
      return agent.start(record.id, { ...start, ...capture }, limit);
    };
    return await (background
      ? this.#start(sandbox, record, startIn, signal)
      : this.#run(call, sandbox, record, { startIn, timeoutMs: leftMs }));
  }

  /** Answers a retry whose command has already ended. Includes the output if the agent still has it. */
  async #repeatAnswer({ signal, memory }: Call, sandbox: SandboxRecord, record: CommandRecord): Promise<Command> {
    if (record.background) return toCommand(record);
    const bounds = { signal, actMs: AGENT_LIMITS.startMs };
    const readResult = (agent: AgentCommands, limit: AbortSignal) => agent.result(record.id, limit, memory);
    const result = await this.#act(sandbox, record, bounds, readResult).catch(() => undefined);
    return toCommand(record, result && outputOf(result));
  }

  async #start(sandbox: SandboxRecord, record: CommandRecord, startIn: StartIn, signal: AbortSignal): Promise<Command> {
    const { commands, clock, commandWatches, startedWork } = this.#deps;
    return this.#act(sandbox, record, { signal, actMs: AGENT_LIMITS.startMs }, async (agent, limit, now) => {
      const started = await startIn(agent, limit);
      startedWork.count(sandbox, 'commands');
      const ending = endingOf(record, started, clock.now());
      if (ending) return toCommand(await commands.finish(record, ending));
      commandWatches.watch(now, record);
      return toCommand(record);
    });
  }

  async #run(
    { signal, memory }: Call,
    sandbox: SandboxRecord,
    record: CommandRecord,
    { startIn, timeoutMs }: { readonly startIn: StartIn; readonly timeoutMs: number | undefined },
  ): Promise<Command> {
    const { commands, executions, clock, startedWork } = this.#deps;
    using limit = new Deadline((timeoutMs ?? 0) + AGENT_LIMITS.commandGraceMs, signal);
    using _execution = executions.begin(sandbox.id, undefined, () => limit.end('canceled'));
    const capture = { stdoutBytes: LIMITS.outputStreamBytes, stderrBytes: LIMITS.outputStreamBytes };
    try {
      return await this.#act(sandbox, record, { signal: limit.signal }, async (agent) => {
        await startIn(agent, limit.signal, { capture });
        startedWork.count(sandbox, 'commands');
        const result = await agent.result(record.id, limit.signal, memory);
        const ending = endingOf(record, result.command, clock.now()) ?? killedEnding(record, clock.now());
        return toCommand(await commands.finish(record, ending), outputOf(result));
      });
    } catch (error) {
      switch (limit.endedBy) {
        case 'canceled':
          return this.#endAsKilled(record);
        case 'timeout':
          throw unavailable(
            'The sandbox did not report the state of the command in time; get the command later.',
            error,
          );
        case 'caller':
          throw unavailable('The service is stopping; repeat the request with the same Idempotency-Key.', error);
        case undefined:
          if (!isEndOfSandbox(error)) throw error;
          return this.#endAsKilled(record);
      }
    }
  }

  async #endAsKilled(record: CommandRecord): Promise<Command> {
    const { commands, clock } = this.#deps;
    const ended = await commands.finish(record, killedEnding(record, clock.now()));
    return toCommand(ended, { stdout: '', stderr: '' });
  }

  /** Runs `act` and translates errors of the agent. Removes the record of a command that was not started. */
  async #act<T>(
    sandbox: SandboxRecord,
    record: CommandRecord,
    bounds: ActBounds,
    act: (agent: AgentCommands, signal: AbortSignal, now: SandboxRecord) => Promise<T>,
  ): Promise<T> {
    const { sandboxUse, commands, log } = this.#deps;
    return sandboxUse.act(sandbox, bounds, async (agent, now, signal) => {
      if (now.generation !== sandbox.generation) await commands.beginAgain(record, now.generation);
      try {
        return await act(agent.commands, signal, now);
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        const own = ownError('command', error);
        if (own) {
          await commands.remove(record);
          throw own;
        }
        log.warn({ err: error, sandboxId: sandbox.id, commandId: record.id }, 'a command failed');
        throw error;
      }
    });
  }

  /** @param mark called before this server is written into the record of a command */
  async #insertOrAdopt(
    { idempotency, audit }: Call,
    sandbox: SandboxRecord,
    { command, cwd, user = 'user', background = false }: CreateCommandBody & { readonly cwd: string },
    mark: (id: CommandId) => void,
  ): Promise<CommandRecord> {
    const { commands, transactions, servers, ids, clock } = this.#deps;
    const record = runningCommand({
      id: ids.next('cmd_'),
      sandboxId: sandbox.id,
      generation: sandbox.generation,
      command,
      cwd,
      user,
      background,
      startedAt: clock.now(),
      idempotencyRecordId: idempotency?.recordId,
      watchedBy: servers.own,
    });
    mark(record.id);
    const stored = await transactions.run(async (tx) => {
      const inserted = await commands.insert(record, tx);
      if (inserted) await audit?.append(tx, { id: record.id, projectId: sandbox.projectId });
      return inserted;
    });
    if (stored) return stored;
    const first = await commands.findByIdempotencyRecord(sandbox.id, idempotency?.recordId ?? '');
    if (!first) throw new Error(`a command of ${sandbox.id} was neither inserted nor found`);
    const seen = asSeenIn(sandbox, first);
    if (seen.status !== 'running') return seen;
    mark(seen.id);
    if (await commands.claimWatch(seen, servers.own)) return { ...seen, watchedBy: servers.own };
    throw unavailable('Another server works on the command; repeat the request with the same Idempotency-Key.');
  }

  #markUsed(sandbox: SandboxRecord): void {
    const { sandboxes, executions, log } = this.#deps;
    if (sandbox.used || executions.wasUsed(sandbox.id)) return;
    sandboxes.markUsed(sandbox.id).catch((error) => {
      log.warn({ err: error, sandboxId: sandbox.id }, 'the first use was not written down');
    });
  }
}

/** Whether the sandbox was ended through another server: this server would have canceled the command first. */
function isEndOfSandbox(error: unknown): boolean {
  return error instanceof AppError && (error.is('sandbox_destroyed') || error.is('sandbox_failed'));
}

function outputOf({ stdout, stderr, truncated }: AgentCommandResult): CommandOutput {
  return { stdout, stderr, ...(truncated && { truncated: { ...truncated } }) };
}
