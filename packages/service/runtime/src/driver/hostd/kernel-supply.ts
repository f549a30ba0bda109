import type { OpenContext, ProvideKernel, SpawnedLanguage } from '@cloche/protocol';
import type { AgentHttpClient, ContextHook } from '../../agent-client/http/agent-http-client.ts';
import type { Instance } from '../runtime-driver.ts';
import { ASK_MS, type HostdConnection } from './hostd-connection.ts';
import { pathOf } from './instance-path.ts';

const PROVIDE_MS = 5_000;
/** Shortest time in milliseconds between two reports to hostd that a language is used. */
const REPORT_AGAIN_MS = 10_000;
/**
 * Longest time that the agent waits for a kernel from the host. The host usually needs milliseconds; on a host that is
 * busier, starting a kernel in the sandbox is faster.
 */
const KERNEL_WAIT_MS = 1_000;

type Agent = Pick<AgentHttpClient, 'openContexts' | 'expectNoKernel'>;

/** Requests kernels from hostd for the contexts of all instances. */
export class KernelSupply {
  readonly #hostd: Pick<HostdConnection, 'request' | 'claims'>;
  readonly #reportAgainAt = new Map<SpawnedLanguage, number>();

  constructor(hostd: Pick<HostdConnection, 'request' | 'claims'>) {
    this.#hostd = hostd;
  }

  /** Whether hostd forks Python kernels into sandboxes. Until it has said so, it is asked for each. */
  get forks(): boolean {
    return (this.#hostd.claims?.pythonKernels ?? 'forked') === 'forked';
  }

  /** @param hasSpare whether a Python kernel is connected to the agent already */
  of(instance: Instance, hasSpare: boolean): InstanceKernels {
    return new InstanceKernels(this, instance, hasSpare);
  }

  /** Asks hostd for a Python kernel. Rejects when hostd has none. */
  async provide(instance: Instance): Promise<void> {
    const message = { language: 'python' } satisfies ProvideKernel;
    const path = `${pathOf(instance)}/kernels`;
    const response = await this.#hostd.request('POST', path, AbortSignal.timeout(PROVIDE_MS), message);
    await response.body.dump();
  }

  /** Reports a language to hostd. A failure is ignored: the report only makes later contexts start faster. */
  report(language: SpawnedLanguage): void {
    const now = performance.now();
    if (now < (this.#reportAgainAt.get(language) ?? 0)) return;
    this.#reportAgainAt.set(language, now + REPORT_AGAIN_MS);
    this.#hostd
      .request('PUT', `/languages/${language}`, AbortSignal.timeout(ASK_MS))
      .then((response) => response.body.dump())
      .catch(() => undefined);
  }
}

/**
 * Requests a kernel from the host once for each context of an instance, even if the context is opened repeatedly: later
 * requests wait for the same kernel.
 */
export class InstanceKernels implements ContextHook {
  readonly #supply: KernelSupply;
  readonly #instance: Instance;
  /** Contexts for which a kernel was requested, or which were open before. */
  readonly #askedFor = new Set<string>();
  #hasSpare: boolean;

  constructor(supply: KernelSupply, instance: Instance, hasSpare: boolean) {
    this.#supply = supply;
    this.#instance = instance;
    this.#hasSpare = hasSpare;
  }

  beforeOpen(agent: Agent, contextId: string, request: OpenContext): OpenContext {
    if (request.language !== 'python') this.#supply.report(request.language);
    if (request.language !== 'python' || !this.#supply.forks || this.#askedFor.has(contextId)) return request;
    this.#askedFor.add(contextId);
    if (!this.#hasSpare) this.#askForKernel(agent);
    this.#hasSpare = false;
    return { ...request, kernelWaitMs: KERNEL_WAIT_MS };
  }

  closed(contextId: string): void {
    this.#askedFor.delete(contextId);
  }

  /**
   * Reads the list of open contexts, so that no kernel is requested for them. A failure is ignored, because it costs
   * only a superfluous kernel.
   */
  async learn(agent: Agent, signal: AbortSignal): Promise<void> {
    for (const contextId of await agent.openContexts(signal).catch(() => [])) this.#askedFor.add(contextId);
  }

  /** Requests a kernel from the host. Meanwhile the agent opens the context and waits for that kernel. */
  #askForKernel(agent: Agent): void {
    this.#supply.provide(this.#instance).catch(() => {
      // Makes the agent start a kernel at once, instead of after `KERNEL_WAIT_MS`.
      agent.expectNoKernel(AbortSignal.timeout(KERNEL_WAIT_MS)).catch(() => undefined);
    });
  }
}
