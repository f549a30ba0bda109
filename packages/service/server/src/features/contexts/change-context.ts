import type { CodeContext, ContextId, SandboxId } from '@cloche/contract';
import { type AgentClient, AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import type { Logger } from 'pino';
import { notFound } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { Call } from '../../platform/call/call.ts';
import type { List } from '../../platform/db/list.ts';
import { createdPlace, type ListPart } from '../../platform/db/list-part.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';
import type { ActBounds, SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { type ContextRecord, toCodeContext } from './context.ts';
import type { ContextRepository } from './context-repository.ts';
import type { OpenContexts } from './open-contexts.ts';

export interface ChangeContextDeps {
  readonly access: SandboxAccess;
  readonly contexts: ContextRepository;
  readonly openContexts: OpenContexts;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Most that the clocks of two servers differ. */
const CLOCKS_DIFFER_MS = 10_000;

/** Names a context. */
export interface ContextPath {
  readonly sandboxId: SandboxId;
  readonly contextId: ContextId;
}

/** Reads, deletes, interrupts and restarts contexts. A context ends with its sandbox at the latest. */
export class ChangeContext {
  readonly #deps: ChangeContextDeps;
  readonly #restarts = new Map<ContextId, Promise<void>>();

  constructor(deps: ChangeContextDeps) {
    this.#deps = deps;
  }

  /** Opens the list of the active contexts, oldest first; it is empty if the sandbox has ended. */
  async list({ credential }: Call, sandboxId: SandboxId): Promise<List<ContextRecord, CodeContext>> {
    const sandbox = await this.#deps.access.get(credential, sandboxId);
    const read = async (part: ListPart) => (factsOf(sandbox).isOver ? [] : this.#deps.contexts.list(sandbox.id, part));
    return { read, placeOf: createdPlace, show: (records) => records.map(toCodeContext) };
  }

  /** @throws AppError `not_found` unless the context is active. */
  async get({ credential }: Call, params: ContextPath): Promise<ContextRecord> {
    const sandbox = await this.#deps.access.get(credential, params.sandboxId);
    if (factsOf(sandbox).isOver) throw notFound('code context', params.contextId);
    return this.#getActive(sandbox, params.contextId);
  }

  /**
   * Deletes the record, then closes the context in the agent. Resolves when every execution in it has ended.
   * Idempotent.
   */
  async delete({ credential, audit }: Call, params: ContextPath): Promise<ContextRecord> {
    const { access, contexts, executions, transactions, clock } = this.#deps;
    const sandbox = await access.get(credential, params.sandboxId);
    const record = await contexts.find(sandbox.id, params.contextId);
    if (record?.deletedAt !== undefined) return record;
    if (!record || factsOf(sandbox).isOver) throw notFound('code context', params.contextId);
    const deleted = await transactions.run(async (tx) => {
      const marked = await contexts.markDeleted(record.id, clock.now(), tx);
      if (marked) await audit?.append(tx, { id: marked.id, projectId: sandbox.projectId });
      return marked;
    });
    executions.endContext(sandbox.id, record.id);
    await this.#close(sandbox, record.id);
    // An execution that was still active after the close may have opened the context again.
    if (executions.cancelContext(sandbox.id, record.id) > 0) await this.#close(sandbox, record.id);
    return deleted ?? (await contexts.find(sandbox.id, record.id)) ?? record;
  }

  /** Does nothing in a paused sandbox, in which no run is in progress. */
  async interrupt(call: Call, params: ContextPath): Promise<ContextRecord> {
    return this.#change(call, params, (agent, id, signal) => agent.interrupt(id, signal));
  }

  /**
   * Passes a client's answer to the current run, for example to a question of the run. Drops it if there is no current
   * run.
   */
  async answer(call: Call, params: ContextPath, message: string): Promise<ContextRecord> {
    return this.#change(call, params, (agent, id, signal) => agent.answer(id, message, signal));
  }

  /** Restarts the kernel, in a paused sandbox after a wake. Concurrent calls share one restart. */
  async restart(call: Call, params: ContextPath): Promise<ContextRecord> {
    const { access, sandboxUse } = this.#deps;
    await sandboxUse.awake(requireLive(await access.get(call.credential, params.sandboxId)), call.signal);
    return this.#change(call, params, (agent, id, signal) => {
      const underWay = this.#restarts.get(id) ?? agent.restart(id, signal).finally(() => this.#restarts.delete(id));
      this.#restarts.set(id, underWay);
      return underWay;
    });
  }

  /** Closes the contexts that were deleted while their sandbox was paused. */
  async closeDeleted(sandbox: SandboxRecord, agent: AgentClient, signal: AbortSignal): Promise<void> {
    const since = (sandbox.pausedAt ?? sandbox.createdAt) - CLOCKS_DIFFER_MS;
    for (const id of await this.#deps.contexts.listDeleted(sandbox.id, since)) {
      this.#deps.openContexts.forget(agent, id);
      await agent.closeContext(id, signal);
    }
  }

  /** Closes the context in the agent. Best effort, because the agent's state ends with the sandbox at the latest. */
  async #close(sandbox: SandboxRecord, id: ContextId): Promise<void> {
    const close = async (agent: AgentClient, signal: AbortSignal) => {
      this.#deps.openContexts.forget(agent, id);
      await agent.closeContext(id, signal);
    };
    // Has no signal: the context is deleted, so it must be closed although the request may have ended.
    await this.#act(sandbox, {}, close).catch((error) => {
      this.#deps.log.warn({ err: error, sandboxId: sandbox.id, contextId: id }, 'an agent could not close a context');
    });
  }

  async #change(
    { credential, signal: caller, audit }: Call,
    params: ContextPath,
    act: (agent: AgentClient, id: ContextId, signal: AbortSignal) => Promise<void>,
  ): Promise<ContextRecord> {
    const { access } = this.#deps;
    const sandbox = requireLive(await access.get(credential, params.sandboxId));
    const record = await this.#getActive(sandbox, params.contextId);
    const announce = () => audit?.announce({ id: record.id, projectId: sandbox.projectId });
    await this.#act(sandbox, { signal: caller, announce }, (agent, signal) =>
      act(agent, record.id, signal).catch(unlessUnknown),
    );
    return record;
  }

  /** Runs `act`. Does nothing if the sandbox is not ready yet, because no kernel runs in it. */
  async #act(
    sandbox: SandboxRecord,
    bounds: Omit<ActBounds, 'actMs'>,
    act: (agent: AgentClient, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { sandboxUse, executions } = this.#deps;
    await sandboxUse.ifReady(sandbox, { ...bounds, actMs: AGENT_LIMITS.actMs }, async (agent, _, signal) => {
      using _use = executions.use(sandbox.id);
      return await act(agent, signal);
    });
  }

  async #getActive(sandbox: SandboxRecord, id: ContextId): Promise<ContextRecord> {
    const record = await this.#deps.contexts.find(sandbox.id, id);
    if (!record || record.deletedAt !== undefined) throw notFound('code context', id);
    return record;
  }
}

/** Ignores `not_found`: if the agent does not know a context, nothing runs in it. */
function unlessUnknown(error: unknown): void {
  if (!(error instanceof AgentError && error.kind === 'not_found')) throw error;
}
