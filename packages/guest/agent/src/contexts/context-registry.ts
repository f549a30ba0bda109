import type { OpenContext } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import type { AgentConfig } from '../config.ts';
import type { KernelProvisioner } from '../provisioning/kernel-provisioner.ts';
import { Context } from './context.ts';
import { resolveCwd } from './workspace-path.ts';

/**
 * Closed contexts whose ids are remembered. A run that was decided before the end of its context arrives soon after it.
 */
const CLOSED_REMEMBERED = 1000;

/** The contexts of this sandbox and the environment that they share. */
export class ContextRegistry {
  readonly #config: AgentConfig;
  readonly #contexts = new Map<string, { context: Context; ready: Promise<void> }>();
  readonly #closed = new Set<string>();
  readonly #kernels: KernelProvisioner;
  /** Contexts that are being opened, most of them for a run. */
  #opening = 0;

  constructor(config: AgentConfig, kernels: KernelProvisioner) {
    this.#config = config;
    this.#kernels = kernels;
  }

  /** Sets the environment of kernels that are started from now on. */
  setEnvironment(env: Record<string, string>): void {
    this.#kernels.environment = env;
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#kernels.environment;
  }

  /** Number of runs that are executed or queued, and of contexts that are being opened for one. */
  get running(): number {
    return this.list().reduce((sum, { runs }) => sum + runs, this.#opening);
  }

  /** Ends all runs. Resolves when no kernel executes one any more. */
  async cancelRuns(reason: string): Promise<void> {
    await Promise.all(this.list().map((context) => context.cancelRuns(reason)));
  }

  list(): Context[] {
    return [...this.#contexts.values()].map(({ context }) => context);
  }

  /** Returns a context. Throws `not_found`. */
  get(contextId: string): Context {
    const entry = this.#contexts.get(contextId);
    if (entry === undefined) throw new AgentError('not_found', `There is no context ${contextId}.`);
    return entry.context;
  }

  /**
   * Opens a context. Idempotent by id: concurrent calls wait for the same kernel. Throws `not_found` for a context that
   * was closed: a server that has not seen its end may still send a run.
   */
  async open(contextId: string, request: OpenContext): Promise<Context> {
    if (this.#closed.has(contextId)) throw new AgentError('not_found', `The context ${contextId} was closed.`);
    const existing = this.#contexts.get(contextId);
    if (existing !== undefined) {
      await existing.ready;
      return existing.context;
    }
    const cwd = resolveCwd(request.cwd, this.#config);
    const { language, timeoutMs, kernelWaitMs } = request;
    const description = { contextId, language, cwd };
    const context = new Context(description, this.#kernels);
    const entry = { context, ready: context.start(timeoutMs, kernelWaitMs) };
    this.#contexts.set(contextId, entry);
    this.#opening += 1;
    try {
      await entry.ready;
    } catch (error) {
      // If this context was closed meanwhile, the id can belong to another context by now.
      if (this.#contexts.get(contextId) === entry) await this.#remove(contextId);
      throw error;
    } finally {
      this.#opening -= 1;
    }
    this.#kernels.recordUse(language);
    return context;
  }

  /** Closes a context for good. Idempotent. */
  async close(contextId: string): Promise<void> {
    this.#closed.add(contextId);
    const [oldest = ''] = this.#closed;
    if (this.#closed.size > CLOSED_REMEMBERED) this.#closed.delete(oldest);
    await this.#remove(contextId);
  }

  async #remove(contextId: string): Promise<void> {
    const entry = this.#contexts.get(contextId);
    if (entry === undefined) return;
    this.#contexts.delete(contextId);
    await entry.context.close();
  }

  async closeAll(): Promise<void> {
    await Promise.all([
      this.#kernels.close(),
      ...[...this.#contexts.keys()].map((contextId) => this.#remove(contextId)),
    ]);
  }
}
