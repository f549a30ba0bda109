import { type CreateContextBody, type Language, LIMITS, type SandboxId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import type { Attempt } from '../../platform/idempotency/require-claim.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import type { FindTemplates } from '../template-catalogue/custom/find-templates.ts';
import { type ContextRecord, normalizeCwd } from './context.ts';
import type { ContextRepository } from './context-repository.ts';
import type { OpenContexts } from './open-contexts.ts';

export interface CreateContextDeps {
  readonly access: SandboxAccess;
  readonly templates: FindTemplates;
  readonly contexts: ContextRepository;
  readonly openContexts: OpenContexts;
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/**
 * Creates contexts. A context that a client creates starts its kernel at once. A default context is only a record until
 * its first run opens it.
 */
export class CreateContext {
  readonly #deps: CreateContextDeps;

  constructor(deps: CreateContextDeps) {
    this.#deps = deps;
  }

  /**
   * Returns a context that is ready for runs. Creates one context per idempotency record.
   * @throws AppError `unavailable` after `timeoutMs`
   */
  async create(call: Call, sandboxId: SandboxId, body: CreateContextBody): Promise<ContextRecord> {
    const { access, templates, sandboxUse, clock } = this.#deps;
    const sandbox = await access.getLive(call.credential, sandboxId);
    await templates.requireLanguage(sandbox, body.language);
    const timeoutMs = body.timeoutMs ?? LIMITS.contextTimeoutDefaultMs;
    using limit = new Deadline(call.receivedAt + timeoutMs - clock.now(), call.signal);
    try {
      const ready = await sandboxUse.ready(sandbox, { signal: limit.signal, readyMs: timeoutMs });
      const context = await this.#insertOrAdopt(call, ready, body);
      if (context.deletedAt === undefined) await this.#open(ready, context, call.idempotency, limit.signal);
      return context;
    } catch (error) {
      throw limit.signal.aborted && error === limit.signal.reason ? notInTime(limit, timeoutMs) : error;
    }
  }

  /**
   * Returns the default context of a sandbox and language. Concurrent calls, also on other servers, get the same
   * context.
   */
  async getDefault(sandbox: SandboxRecord, language: Language): Promise<ContextRecord> {
    const { templates, contexts } = this.#deps;
    for (;;) {
      const existing = await contexts.findDefault(sandbox.id, language);
      if (existing) return existing;
      await templates.requireLanguage(sandbox, language);
      const made = this.#newRecord(sandbox, { language }, { isDefault: true, idempotencyRecordId: undefined });
      const inserted = await contexts.insert(made);
      if (inserted) return inserted;
    }
  }

  async #insertOrAdopt(
    { idempotency, audit }: Call,
    sandbox: SandboxRecord,
    body: CreateContextBody,
  ): Promise<ContextRecord> {
    const { contexts, transactions } = this.#deps;
    const idempotencyRecordId = idempotency?.recordId;
    const made = this.#newRecord(sandbox, body, { isDefault: false, idempotencyRecordId });
    const stored = await transactions.run(async (tx) => {
      const inserted = await contexts.insert(made, tx);
      if (inserted) await audit?.append(tx, { id: made.id, projectId: sandbox.projectId });
      return inserted;
    });
    if (stored) return stored;
    const adopted = await contexts.findByIdempotencyRecord(sandbox.id, idempotencyRecordId ?? '');
    if (!adopted) throw new Error(`the context of idempotency record ${idempotencyRecordId} is gone`);
    return adopted;
  }

  async #open(
    sandbox: SandboxRecord,
    context: ContextRecord,
    attempt: Attempt | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { sandboxUse, openContexts, contexts, executions } = this.#deps;
    using _use = executions.use(sandbox.id);
    try {
      await sandboxUse.act(sandbox, { signal }, (agent) => openContexts.ensure(agent, context, signal));
    } catch (error) {
      // Remove the record, so that a retry starts again. Close the context, in case a slow kernel still starts.
      if (await contexts.remove(context.id, attempt)) this.#closeLate(sandbox, context);
      throw error;
    }
  }

  #closeLate(sandbox: SandboxRecord, context: ContextRecord): void {
    const { sandboxUse, openContexts } = this.#deps;
    const closed = sandboxUse.act(sandbox, { actMs: AGENT_LIMITS.actMs }, (agent, _, signal) => {
      openContexts.forget(agent, context.id);
      return agent.closeContext(context.id, signal);
    });
    // The record is authoritative; the agent's state ends with the sandbox at the latest.
    closed.catch(() => undefined);
  }

  #newRecord(
    sandbox: SandboxRecord,
    { language, cwd, timeoutMs }: CreateContextBody,
    origin: Pick<ContextRecord, 'isDefault' | 'idempotencyRecordId'>,
  ): ContextRecord {
    const { ids, clock } = this.#deps;
    return {
      id: ids.next('cctx_'),
      sandboxId: sandbox.id,
      generation: sandbox.generation,
      language,
      cwd: normalizeCwd(cwd),
      timeoutMs,
      createdAt: clock.now(),
      deletedAt: undefined,
      ...origin,
    };
  }
}

function notInTime(limit: Deadline, timeoutMs: number): AppError {
  const isClientsBound = limit.endedBy === 'timeout';
  const message = isClientsBound
    ? `The context was not ready within ${timeoutMs} ms and was not created; try again with a larger body.timeoutMs.`
    : 'The service is stopping; the context was not created. Try again.';
  return new AppError('unavailable', message, { retryAfterSeconds: 1, isClientsBound });
}
