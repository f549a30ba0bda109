import { type CodeRun, type CodeRunEvent, type KernelMessageEvent, LIMITS } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { AgentOutput } from '@cloche/protocol';
import { type AgentClient, AgentError, type RunCell } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Logger } from 'pino';
import { unavailable } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { ContextRepository } from '../contexts/context-repository.ts';
import type { OpenContexts } from '../contexts/open-contexts.ts';
import type { StartedWork } from '../metering/started-work.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { sandboxEnded } from '../sandbox-records/sandbox-access.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { AwaitSandbox } from '../sandboxes/use/await-sandbox.ts';
import type { ErrorTranslator } from '../sandboxes/use/error-translator.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import type { PromoteOutputs } from './promote-outputs.ts';
import { Rendezvous } from './rendezvous.ts';
import type { ResolvedRun, ResolveRun, RunRequest } from './resolve-run.ts';
import type { RunMetrics } from './run-metrics.ts';
import { RunResult, timeoutError } from './run-result.ts';

const RUN_LIMITS = {
  stdoutBytes: LIMITS.outputStreamBytes,
  stderrBytes: LIMITS.outputStreamBytes,
  outputBytes: LIMITS.inlineOutputBytes,
  outputsBytes: LIMITS.inlineOutputsBytes,
};
/** Outputs that become artifacts may be larger than inline ones. */
const PROMOTING_LIMITS = {
  ...RUN_LIMITS,
  outputBytes: LIMITS.promotedOutputBytes,
  outputsBytes: LIMITS.promotedOutputsBytes,
};

export interface RunCodeDeps {
  readonly resolveRun: ResolveRun;
  readonly sandboxes: SandboxRepository;
  readonly awaitSandbox: AwaitSandbox;
  readonly contexts: Pick<ContextRepository, 'enter'>;
  readonly openContexts: OpenContexts;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly errorTranslator: ErrorTranslator;
  readonly clock: Clock;
  readonly promoteOutputs: PromoteOutputs;
  readonly ids: IdSource;
  readonly metrics: RunMetrics;
  readonly startedWork: StartedWork;
  readonly log: Logger;
}

/** Runs code. A buffered and a streamed run share one execution; only the stream reports each event. */
export class RunCode {
  readonly #deps: RunCodeDeps;

  constructor(deps: RunCodeDeps) {
    this.#deps = deps;
  }

  /** Returns the result. Code that fails, times out or is canceled gives a result with `error`. */
  async run(call: Call, request: RunRequest): Promise<CodeRun> {
    const { run, limit } = await this.#accept(call, request);
    return this.#execute(run, limit, ignoreEvents);
  }

  /**
   * Resolves when the sandbox is ready and the run is accepted. The consumer pulls events, so a slow reader slows the
   * agent down. Ending the iteration cancels the run. The result arrives within `timeoutMs` plus a short grace period.
   */
  async stream(call: Call, request: RunRequest): Promise<AsyncGenerator<CodeRunEvent, void>> {
    // Sound: messages of the kernel occur only in a run that has a message, and such a run is not streamed here.
    return (await this.converse(call, request)) as AsyncGenerator<CodeRunEvent, void>;
  }

  /** Streams a run as `stream` does, and also the kernel's messages for the client. */
  async converse(call: Call, request: RunRequest): Promise<AsyncGenerator<KernelMessageEvent, void>> {
    const { run, limit } = await this.#accept(call, request);
    return this.#stream(run, limit);
  }

  async #accept(call: Call, request: RunRequest): Promise<{ run: ResolvedRun; limit: Deadline }> {
    const run = await this.#deps.resolveRun.resolve(call, request);
    const limit = new Deadline(
      call.receivedAt + run.timeoutMs + AGENT_LIMITS.runGraceMs - this.#deps.clock.now(),
      call.signal,
    );
    try {
      const sandbox = await this.#waitForSandbox(run, limit);
      return { run: sandbox === run.sandbox ? run : { ...run, sandbox }, limit };
    } catch (error) {
      limit[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Waits for the sandbox. If the sandbox ends meanwhile, the run is canceled. If the sandbox fails, the request fails.
   */
  async #waitForSandbox(run: ResolvedRun, limit: Deadline): Promise<SandboxRecord> {
    const launched = await this.#deps.awaitSandbox.settled(run.sandbox, limit.signal);
    const sandbox = await this.#awake(launched, limit);
    const { isOver, refusal } = factsOf(sandbox);
    if (refusal === 'sandbox_failed') throw sandboxEnded(sandbox);
    if (isOver) limit.end('canceled');
    return sandbox;
  }

  /** If the time of the run is over before its sandbox is awake, returns it as it is: the run then reports its timeout. */
  async #awake(sandbox: SandboxRecord, limit: Deadline): Promise<SandboxRecord> {
    if (!factsOf(sandbox).needsWake) return sandbox;
    try {
      return await this.#deps.sandboxUse.awake(sandbox, limit.signal);
    } catch (error) {
      if (limit.endedBy === 'timeout') return sandbox;
      throw error;
    }
  }

  async *#stream(run: ResolvedRun, limit: Deadline): AsyncGenerator<KernelMessageEvent, void> {
    const events = new Rendezvous<KernelMessageEvent>();
    const executed = this.#execute(run, limit, (event) => events.give(event)).finally(() => events.end());
    // A consumer of all events gets the rejection below; one that left ignores it.
    executed.catch(() => undefined);
    try {
      for (let event = await events.take(); event; event = await events.take()) yield event;
      yield { type: 'complete', data: await executed };
    } finally {
      // Has no effect on a run that has ended.
      limit.end('caller');
      events.end();
    }
  }

  async #execute(run: ResolvedRun, deadline: Deadline, emit: EmitEvent): Promise<CodeRun> {
    const { ids, clock, metrics } = this.#deps;
    using limit = deadline;
    const startedAt = clock.now();
    const runId = ids.next('run_');
    const result = new RunResult(run.context, runId, run.timeoutMs, run.message !== undefined);
    // A run stopped while it waited for the sandbox never begins: an ended sandbox has no activity to track.
    using _ = limit.endedBy === undefined ? this.#begin(run, limit) : undefined;
    try {
      const connected = this.#connect(run, limit);
      const agent = connected instanceof Promise ? await connected : connected;
      const followed = { run, runId, limit, result, emit };
      await this.#deps.sandboxUse.throughGate(run.sandbox, agent, limit.signal, (its, sandbox) =>
        this.#follow(its, sandbox === run.sandbox ? followed : { ...followed, run: { ...run, sandbox } }),
      );
    } catch (error) {
      const emitted = result.fail(await this.#explain(run, limit, error));
      if (emitted) await emit(emitted);
    }
    const completed = result.complete();
    metrics.ran(run.context.language, completed.error?.name, (clock.now() - startedAt) / 1000);
    return completed;
  }

  #promotion({ sandbox }: ResolvedRun, runId: string, { signal }: Deadline) {
    return (output: AgentOutput, index: number, inlineBytesLeft: number) =>
      this.#deps.promoteOutputs.promote(output, { sandbox, runId, index, inlineBytesLeft, signal });
  }

  #connect({ sandbox }: ResolvedRun, limit: Deadline): AgentClient | Promise<AgentClient> {
    limit.signal.throwIfAborted();
    return this.#deps.sandboxUse.connect(sandbox, limit.signal);
  }

  /** Runs the code. If the agent has lost the context, opens it again, once, and reports the lost state. */
  async #follow(agent: AgentClient, followed: Followed): Promise<void> {
    try {
      await this.#takeEvents(agent, followed);
      if (await this.#isFirstSinceLoss(followed.run)) followed.result.noteStateLost();
    } catch (error) {
      if (!(error instanceof AgentError && error.kind === 'not_found')) throw error;
      this.#deps.openContexts.forget(agent, followed.run.context.id);
      followed.result.noteStateLost();
      await this.#takeEvents(agent, followed);
    }
  }

  /** Returns whether this is the first result of the context since its sandbox has lost its memory. */
  async #isFirstSinceLoss({ sandbox, context }: ResolvedRun): Promise<boolean> {
    if (context.generation === sandbox.generation || sandbox.resumedAt === undefined) return false;
    return await this.#deps.contexts.enter(context.id, sandbox.generation);
  }

  async #takeEvents(agent: AgentClient, { run, runId, limit, result, emit }: Followed): Promise<void> {
    const { openContexts } = this.#deps;
    const cell = this.#cellOf(agent, run, runId, limit);
    let isNoted = false;
    for await (const event of agent.run(run.context.id, cell, limit.signal, run.call.memory)) {
      // The first event shows that the context is open.
      if (!isNoted) openContexts.noteOpen(agent, run.context.id);
      isNoted = true;
      const live =
        run.isPromoting && event.type === 'output'
          ? await result.takePromoting(event, this.#promotion(run, runId, limit))
          : result.take(event);
      const emitted = live && emit(live);
      if (emitted) await emitted;
      if (result.isDone) return;
    }
  }

  #cellOf(agent: AgentClient, run: ResolvedRun, runId: string, limit: Deadline): RunCell {
    const { clock, openContexts } = this.#deps;
    const timeoutMs = Math.ceil(run.call.receivedAt + run.timeoutMs - clock.now());
    if (timeoutMs < 1) limit.end('timeout');
    limit.signal.throwIfAborted();
    const limits = run.isPromoting ? PROMOTING_LIMITS : RUN_LIMITS;
    const open = openContexts.requestFor(agent, run.context);
    const { code, message } = run;
    const { recordId, claim } = run.call.idempotency ?? {};
    const operation = recordId !== undefined && claim !== undefined && { recordId, claim };
    const optional = { ...(open && { open }), ...(operation && { operation }), ...(message && { message }) };
    return { runId, code, timeoutMs, limits, ...optional };
  }

  /** Returns the run's own error (timeout or cancellation). Throws if the request failed. */
  async #explain(run: ResolvedRun, limit: Deadline, error: unknown): Promise<{ name: string; message: string }> {
    const { executions, errorTranslator, log } = this.#deps;
    switch (limit.endedBy) {
      case 'timeout':
        return timeoutError(run.timeoutMs);
      case 'canceled':
        return CANCELED;
      case 'caller':
        throw unavailable('The run was canceled: the client disconnected, or the service is stopping.');
    }
    // The agent does not open the context again, because the context was deleted through another server.
    if (error instanceof AgentError && error.kind === 'not_found') return CANCELED;
    if (error instanceof AgentError && error.kind === 'conflict')
      throw unavailable('Another server executes this request now; send it again to get its result.', error);
    const explained = await errorTranslator.translate(run.sandbox, error);
    if (explained.code === 'sandbox_destroyed' || explained.code === 'sandbox_failed')
      executions.forget(run.sandbox.id);
    // A sandbox ended on purpose cancels the run; a lost sandbox is the platform's failure.
    if (explained.is('sandbox_destroyed') && explained.details?.reason !== 'platform_cleanup') return CANCELED;
    log.warn(
      { err: error, sandboxId: run.sandbox.id, contextId: run.context.id, code: explained.code },
      'a run failed',
    );
    throw explained;
  }

  #begin({ sandbox, context }: ResolvedRun, limit: Deadline): Disposable {
    const { executions, startedWork } = this.#deps;
    const firstUse = !sandbox.used && !executions.wasUsed(sandbox.id);
    startedWork.count(sandbox, 'runs');
    const execution = executions.begin(sandbox.id, context.id, () => limit.end('canceled'));
    if (firstUse) this.#markUsed(sandbox);
    return execution;
  }

  #markUsed(sandbox: SandboxRecord): void {
    this.#deps.sandboxes.markUsed(sandbox.id).catch((error) => {
      this.#deps.log.warn({ err: error, sandboxId: sandbox.id }, 'the first use was not written down');
    });
  }
}

/** Receives each event of a stream. If it returns a promise, the next event is read after it resolves. */
type EmitEvent = (event: KernelMessageEvent) => Promise<void> | undefined;

const ignoreEvents: EmitEvent = () => undefined;

interface Followed {
  readonly run: ResolvedRun;
  readonly runId: string;
  readonly limit: Deadline;
  readonly result: RunResult;
  readonly emit: EmitEvent;
}

const CANCELED = { name: 'CanceledError', message: 'The run was canceled: its context or its sandbox ended.' };
