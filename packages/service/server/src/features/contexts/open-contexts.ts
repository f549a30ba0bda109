import type { ContextId } from '@cloche/contract';
import { Deadline, orAbort } from '@cloche/node-support';
import type { OpenContext } from '@cloche/protocol';
import { type AgentClient, AgentError } from '@cloche/runtime';
import { type ContextRecord, openingMs } from './context.ts';

/**
 * Tracks which contexts each agent has open, as far as this server knows. Opening is idempotent: after a restart of the
 * server or on a new connection, the first use opens a context again.
 */
export class OpenContexts {
  readonly #open = new WeakMap<AgentClient, Map<ContextId, 'open' | Promise<void>>>();

  /**
   * Opens the context if needed. Concurrent calls share one opening. When `signal` aborts, the caller stops waiting,
   * but the opening continues.
   */
  async ensure(agent: AgentClient, context: ContextRecord, signal: AbortSignal): Promise<void> {
    const contexts = this.#contextsOf(agent);
    const known = contexts.get(context.id);
    if (known === 'open') return;
    await orAbort(known ?? this.#start(agent, context, contexts), signal);
  }

  /** Returns the open request that a run must send along to its context; undefined if the context is open. */
  requestFor(agent: AgentClient, context: ContextRecord): OpenContext | undefined {
    return this.#contextsOf(agent).get(context.id) === 'open' ? undefined : toRequest(context);
  }

  /** Records that the agent has the context open, because it ran something in it. */
  noteOpen(agent: AgentClient, id: ContextId): void {
    this.#contextsOf(agent).set(id, 'open');
  }

  /** Makes the next use open the context again. */
  forget(agent: AgentClient, id: ContextId): void {
    this.#contextsOf(agent).delete(id);
  }

  #start(agent: AgentClient, context: ContextRecord, contexts: Map<ContextId, 'open' | Promise<void>>): Promise<void> {
    const opening = openContext(agent, context).then(
      () => {
        if (contexts.get(context.id) === opening) contexts.set(context.id, 'open');
      },
      (error) => {
        if (contexts.get(context.id) === opening) contexts.delete(context.id);
        throw error;
      },
    );
    contexts.set(context.id, opening);
    // Callers that wait get the rejection. Without callers it is ignored.
    opening.catch(() => undefined);
    return opening;
  }

  #contextsOf(agent: AgentClient): Map<ContextId, 'open' | Promise<void>> {
    let contexts = this.#open.get(agent);
    if (!contexts) {
      contexts = new Map();
      this.#open.set(agent, contexts);
    }
    return contexts;
  }
}

async function openContext(agent: AgentClient, context: ContextRecord): Promise<void> {
  const request = toRequest(context);
  const { timeoutMs } = request;
  using limit = new Deadline(timeoutMs);
  try {
    await agent.openContext(context.id, request, limit.signal);
  } catch (error) {
    if (limit.endedBy !== 'timeout') throw error;
    throw new AgentError('timeout', `the kernel was not ready within ${timeoutMs} ms`, { cause: error });
  }
}

function toRequest(context: ContextRecord): OpenContext {
  return { language: context.language, cwd: context.cwd, timeoutMs: openingMs(context) };
}
