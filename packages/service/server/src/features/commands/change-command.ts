import { type Command, type CommandStdinBody, LIMITS, type ResizeCommandBody, type Signal } from '@cloche/contract';
import { type AgentClient, type AgentCommands, AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { invalidRequest } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { Call } from '../../platform/call/call.ts';
import { inputClosed, noTerminal, ownError } from '../sandbox-records/agent-failures.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireLive } from '../sandbox-records/sandbox-access.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { asSeenIn, type CommandRecord, endingOf, killedEnding, toCommand } from './command.ts';
import type { CommandRepository } from './command-repository.ts';
import { tooLong } from './command-request.ts';
import type { CommandPath, FoundCommand, ReadCommands } from './read-commands.ts';
import { terminalSize } from './terminal-size.ts';

export interface ChangeCommandDeps {
  readonly readCommands: ReadCommands;
  readonly commands: CommandRepository;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly clock: Clock;
}

/** Writes to, resizes and kills running commands. */
export class ChangeCommand {
  readonly #deps: ChangeCommandDeps;

  constructor(deps: ChangeCommandDeps) {
    this.#deps = deps;
  }

  /**
   * Writes to the command's standard input.
   * @throws AppError `conflict` when the command has ended or its input is closed.
   */
  async writeStdin(call: Call, params: CommandPath, body: CommandStdinBody): Promise<Command> {
    const bytes = stdinBytes(body);
    const { known, record } = await this.#change(call, params, 'stdin', (agent, id, signal) =>
      agent.writeStdin(id, bytes, body.close ?? false, signal),
    );
    if (!known) throw inputClosed(undefined);
    return toCommand(record);
  }

  /** @throws AppError `conflict` when the command has ended or has no terminal. */
  async resize(call: Call, params: CommandPath, body: ResizeCommandBody): Promise<Command> {
    const size = terminalSize(body);
    const { known, record } = await this.#change(call, params, 'resize', (agent, id, signal) =>
      agent.resize(id, size, signal),
    );
    if (!known) throw noTerminal(undefined);
    return toCommand(record);
  }

  /** Changes a command of a live sandbox. `known` is false if the agent no longer has the command. */
  async #change(
    call: Call,
    params: CommandPath,
    errors: 'stdin' | 'resize',
    change: (agent: AgentCommands, id: string, signal: AbortSignal) => Promise<void>,
  ): Promise<{ known: boolean; record: CommandRecord }> {
    const { readCommands, sandboxUse, executions } = this.#deps;
    const { sandbox, record } = await readCommands.find(call, params);
    const live = await sandboxUse.awake(requireLive(sandbox), call.signal);
    executions.touch(live.id);
    const bounds = { signal: call.signal, actMs: AGENT_LIMITS.actMs };
    const known = await readCommands.act(live, bounds, async (agent, signal) => {
      await change(agent, record.id, signal).catch((error: unknown) => {
        throw ownError(errors, error) ?? error;
      });
      return true;
    });
    return { known: known ?? false, record };
  }

  /**
   * Sends a signal. Idempotent: an ended command stays unchanged, but SIGKILL also ends processes that it left running.
   */
  async kill(call: Call, params: CommandPath, name: Signal): Promise<Command> {
    const { readCommands, executions } = this.#deps;
    const { sandbox, record } = await readCommands.find(call, params);
    if (factsOf(sandbox).isOver) return toCommand(asSeenIn(sandbox, record));
    if (record.status !== 'running' && name !== 'SIGKILL') return toCommand(record);
    if (factsOf(sandbox).needsWake) return toCommand(await this.#killAtWake(call, params, { sandbox, record }, name));
    executions.touch(sandbox.id);
    const announce = () => call.audit?.announce({ id: record.id, projectId: sandbox.projectId });
    const bounds = { signal: call.signal, actMs: AGENT_LIMITS.actMs, announce };
    const known = await readCommands.act(sandbox, bounds, (agent, signal) => agent.kill(record.id, name, signal));
    if (!known) return toCommand(await readCommands.refresh({ sandbox, record }));
    return toCommand(await this.#finish(record, known));
  }

  /** Notes the signal, which is sent when the sandbox wakes. One that cannot be caught ends the command at once. */
  async #killAtWake(
    call: Call,
    params: CommandPath,
    { sandbox, record }: FoundCommand,
    name: Signal,
  ): Promise<CommandRecord> {
    const { commands, readCommands, clock } = this.#deps;
    await call.audit?.announce({ id: record.id, projectId: sandbox.projectId });
    await commands.putOff(record, name);
    // If the sandbox woke before the signal was noted, nothing else sends it.
    const now = (await readCommands.find(call, params)).sandbox;
    const bounds = { signal: call.signal, actMs: AGENT_LIMITS.actMs };
    const known = await readCommands.act(now, bounds, (agent, signal) => agent.kill(record.id, name, signal));
    if (known) {
      await commands.takeSignal(record.id);
      return this.#finish(record, known);
    }
    return name === 'SIGKILL' && record.status === 'running'
      ? commands.finish(record, killedEnding(record, clock.now()))
      : record;
  }

  /** Sends the signals that were put off while the sandbox was paused. */
  async sendSignals(sandbox: SandboxRecord, agent: AgentClient, limit: AbortSignal): Promise<void> {
    const { commands } = this.#deps;
    for (const { id, signal } of await commands.listPutOff(sandbox.id)) {
      await agent.commands.kill(id, signal, limit).catch((error: unknown) => {
        // The agent keeps only the latest commands.
        if (!(error instanceof AgentError && error.kind === 'not_found')) throw error;
      });
      await commands.takeSignal(id);
    }
  }

  async #finish(record: CommandRecord, known: Parameters<typeof endingOf>[1]): Promise<CommandRecord> {
    const { commands, clock } = this.#deps;
    const ending = record.status === 'running' ? endingOf(record, known, clock.now()) : undefined;
    return ending ? commands.finish(record, ending) : record;
  }
}

function stdinBytes({ data = '', encoding = 'utf8' }: CommandStdinBody): Buffer {
  const bytes = Buffer.from(data, encoding);
  if (encoding === 'base64' && bytes.toString('base64').replace(/=+$/, '') !== data.replace(/=+$/, '')) {
    throw invalidRequest({ path: 'body.data', message: 'is not valid base64' });
  }
  if (bytes.length > LIMITS.commandStdinBytes) throw tooLong('body.data', bytes.length, LIMITS.commandStdinBytes);
  return bytes;
}
