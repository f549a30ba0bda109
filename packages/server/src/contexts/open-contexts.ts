import type { ContextId } from '@cloche/contract';
import type { OpenContext } from '@cloche/protocol';
import { Deadline, orAbort } from '../base/deadline.ts';
import { type AgentClient, AgentFault } from '../driver/runtime-driver.ts';
import { type ContextRecord, openingMs } from './context.ts';

/**
 * Which contexts each agent has open, as far as this server knows: opening is idempotent, so after a restart, or on a
 * new connection, the first use asks again.
 */
export class OpenContexts {
  readonly #open = new WeakMap<AgentClient, Map<ContextId, 'open' | Promise<void>>>();

  /** One opening, however many ask at once; whoever's `signal` aborts leaves while the opening goes on. */
  async ensure(agent: AgentClient, context: ContextRecord, signal: AbortSignal): Promise<void> {
    const contexts = this.#contextsOf(agent);
    const known = contexts.get(context.id);
    if (known === 'open') return;
    await orAbort(known ?? this.#start(agent, context, contexts), signal);
  }

  /** What a run takes along so that its context is opened first; nothing once it is open. */
  requestFor(agent: AgentClient, context: ContextRecord): OpenContext | undefined {
    return this.#contextsOf(agent).get(context.id) === 'open' ? undefined : toRequest(context);
  }

  /** An agent has run something in it. */
  noteOpen(agent: AgentClient, id: ContextId): void {
    this.#contextsOf(agent).set(id, 'open');
  }

  /** The next use opens it anew. */
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
    // Whoever waits sees the failure; when all have left, nobody needs to.
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
    if (!limit.expired) throw error;
    throw new AgentFault('timeout', `the kernel was not ready within ${timeoutMs} ms`, { cause: error });
  }
}

function toRequest(context: ContextRecord): OpenContext {
  return { language: context.language, cwd: context.cwd, timeoutMs: openingMs(context) };
}
