import { type Command, type CommandId, LIMITS, type SandboxId } from '@cloche/contract';
import { BackOff, Deadline, onAbort, pause, reportTo } from '@cloche/node-support';
import type { AgentCommand } from '@cloche/protocol';
import { AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Logger } from 'pino';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import type { CreateCommand } from '../../commands/create-command.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import type { RunOutcome } from '../record/workspace-run.ts';
import { type ClaimedRun, ClaimLostError } from './claimed-run.ts';
import { copyOutput } from './copy-output.ts';
import { failed, findSandbox, lifetimeOf, lostWith } from './run-sandbox.ts';

/** The sandbox keeps all output that a run can have, and more, because it is copied while the command writes. */
const LOG_BYTES = LIMITS.workspaceRunOutputBytes + LIMITS.commandLogBytes;
/** Time between SIGTERM and SIGKILL when a run is canceled. */
const TERM_MS = 10_000;
/** Time after `timeoutMs`, and after SIGKILL, at which the server stops waiting for the agent. */
const GRACE_MS = 30_000;
/** Pauses between requests to an agent that does not answer. */
const PAUSES = { firstMs: 100, longestMs: 5_000 };

export interface RunCommandDeps {
  readonly createCommand: CreateCommand;
  readonly sandboxes: SandboxRepository;
  readonly sandboxUse: SandboxUse;
  readonly runLog: SequenceLog;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Runs the command of a run in its sandbox, once, and copies its output. Safe to repeat: it follows the same command.
 */
export class RunCommand {
  readonly #deps: RunCommandDeps;

  constructor(deps: RunCommandDeps) {
    this.#deps = deps;
  }

  /** Returns how the command ended. Rejects when this server no longer works on the run. */
  async run(run: ClaimedRun): Promise<RunOutcome> {
    const { sandboxes, log } = this.#deps;
    using limit = new Deadline(lifetimeOf(run.record), run.stopped);
    using _ = onAbort(run.canceled, () => {
      this.#limitCancel(limit).catch(reportTo(this.#deps.log));
    });
    const backOff = new BackOff(PAUSES);
    for (;;) {
      try {
        return await this.#follow(run, limit.signal);
      } catch (error) {
        run.stopped.throwIfAborted();
        if (error instanceof ClaimLostError) throw error;
        if (limit.endedBy === 'timeout') return { status: 'timed_out' };
        if (limit.endedBy === 'canceled') return { status: 'canceled' };
        const lost = lostWith(await findSandbox(sandboxes, run.record));
        if (lost) return run.canceled.aborted ? { status: 'canceled' } : lost;
        if (isRefusal(error)) return failed('command_not_started', error.message);
        log.warn({ err: error, workspaceRunId: run.record.id }, 'the command of a run could not be followed');
        await backOff.pause(limit.signal);
      }
    }
  }

  async #follow(run: ClaimedRun, signal: AbortSignal): Promise<RunOutcome> {
    const { sandboxes, sandboxUse, runLog, clock } = this.#deps;
    const { id, settings } = run.record;
    const sandbox = await findSandbox(sandboxes, run.record);
    const lost = lostWith(sandbox);
    if (lost || !sandbox) return lost ?? failed('sandbox_lost', 'The sandbox of the run is gone.');
    const command = await this.#start(run, sandbox.id, signal);
    const endsAt = Date.parse(command.startedAt) + settings.timeoutMs + GRACE_MS;
    using limit = new Deadline(endsAt - clock.now(), signal);
    const followed = new AbortController();
    using _ = onAbort(run.canceled, () => {
      this.#end(sandbox, command.id, followed.signal).catch(reportTo(this.#deps.log));
    });
    try {
      const agent = await sandboxUse.connect(sandbox, limit.signal);
      const after = await runLog.sourceSeq(id);
      const events = agent.commands.follow(command.id, after, limit.signal);
      return outcomeOf(await copyOutput(events, runLog, { id, after }), run.canceled.aborted);
    } catch (error) {
      if (limit.endedBy === 'timeout') return { status: 'timed_out' };
      if (error instanceof AgentError && error.kind === 'not_found') {
        return failed('sandbox_lost', 'The sandbox no longer has the command.');
      }
      throw await sandboxUse.explain(sandbox, error, signal);
    } finally {
      followed.abort();
    }
  }

  /** Starts the command, or finds it: the id of the run is its idempotency record. */
  async #start(run: ClaimedRun, sandboxId: SandboxId, signal: AbortSignal): Promise<Command> {
    const { settings, id } = run.record;
    const { command, cwd, timeoutMs } = settings;
    const { createCommand, clock, log } = this.#deps;
    const call = run.call({ signal, recordId: id, receivedAt: clock.now(), log });
    return createCommand.create(call, {
      sandboxId,
      body: {
        command: typeof command === 'string' ? command : [...command],
        cwd,
        timeoutMs,
        background: true,
      },
      logBytes: LOG_BYTES,
    });
  }

  /** Ends the command with SIGTERM, and with SIGKILL if it has not ended after ten seconds. Never rejects. */
  async #end(sandbox: SandboxRecord, commandId: CommandId, ended: AbortSignal): Promise<void> {
    const { sandboxUse, log } = this.#deps;
    for (const name of ['SIGTERM', 'SIGKILL']) {
      const bounds = { signal: ended, actMs: AGENT_LIMITS.actMs };
      await sandboxUse
        .act(sandbox, bounds, ({ commands }, _, signal) => commands.kill(commandId, name, signal))
        .catch((error) => {
          if (!ended.aborted) log.warn({ err: error, commandId }, 'a canceled command could not be sent a signal');
        });
      await pause(TERM_MS, ended);
      if (ended.aborted) return;
    }
  }

  async #limitCancel(limit: Deadline): Promise<void> {
    await pause(TERM_MS + GRACE_MS, limit.signal, { ref: false });
    limit.end('canceled');
  }
}

/**
 * Errors that do not mean a refusal: after `sandbox_incompatible`, for example, another server may continue the run.
 */
const NO_REFUSALS: ReadonlySet<string> = new Set(['unavailable', 'internal', 'sandbox_incompatible']);

function isRefusal(error: unknown): error is AppError {
  return error instanceof AppError && !NO_REFUSALS.has(error.code);
}

function outcomeOf({ status, exitCode, signal, failureReason }: AgentCommand, isCanceled: boolean): RunOutcome {
  const ended = { exitCode, signal };
  if (isCanceled) return { status: 'canceled', ...ended };
  if (status === 'timed_out') return { status: 'timed_out', ...ended };
  if (status === 'exited' && exitCode === 0) return { status: 'succeeded', ...ended };
  if (status !== 'failed') return { status: 'failed', ...ended };
  const message = failureReason ?? 'The command could not be started.';
  return { ...failed('command_not_started', message), ...ended };
}
