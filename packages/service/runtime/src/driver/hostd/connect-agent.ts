import { BackOff, reportFailure } from '@cloche/node-support';
import { dialer } from '../../agent-client/agent-endpoint.ts';
import { AgentHttpClient } from '../../agent-client/http/agent-http-client.ts';
import { SharedBudget } from '../../agent-client/http/event-budget.ts';
import { ServerLineMemory } from '../../agent-client/http/line-memory.ts';
import type { RequestTracing } from '../../tracing.ts';
import { type AgentClient, AgentError, type Instance } from '../runtime-driver.ts';
import { ASK_MS, type HostdConnection } from './hostd-connection.ts';
import { pathOf } from './instance-path.ts';
import { KernelSupply } from './kernel-supply.ts';

/** Delay of the first health check after `connect`, so that the caller's first request precedes it. */
const LOOK_MS = 50;
/** Pauses between health checks of an agent that does not listen yet. */
const PAUSES = { firstMs: 10, longestMs: 250 };

export interface ConnectAgentDeps {
  readonly hostd: HostdConnection;
  /** Returns undefined for an instance that does not live. */
  readonly find: (instance: Instance, signal: AbortSignal) => Promise<Instance | undefined>;
  readonly tracing: RequestTracing | undefined;
}

/** The answer of hostd to a launch. */
export interface FreshLaunch {
  readonly agentAnswers: boolean;
  readonly kernelReady: boolean;
}

/** Connects to the agents of hostd's instances. */
export class ConnectAgent {
  readonly #deps: ConnectAgentDeps;
  readonly #lineMemory = new ServerLineMemory();
  readonly #events = new SharedBudget();
  /** The answers of hostd to launches, by the path of the instance. Each is kept until `connect`. */
  readonly #launched = new Map<string, FreshLaunch>();
  readonly #kernels: KernelSupply;

  constructor(deps: ConnectAgentDeps) {
    this.#deps = deps;
    this.#kernels = new KernelSupply(deps.hostd);
  }

  /** Keeps the answer of hostd to a launch until `connect` or `forget`. */
  noteLaunched(path: string, launch: FreshLaunch): void {
    this.#launched.set(path, launch);
  }

  forget(path: string): void {
    this.#launched.delete(path);
  }

  async connect(live: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> {
    const path = pathOf(live);
    const fresh = this.#launched.get(path);
    this.#launched.delete(path);
    const kernels = this.#kernels.of(live, fresh?.kernelReady ?? false);
    const client = new AgentHttpClient(dialer({ unix: socketPathOf(live) }), {
      contexts: kernels,
      serverLineMemory: this.#lineMemory,
      events: this.#events,
      tracing: this.#deps.tracing,
      ...(onBroken && { onBroken }),
    });
    if (fresh?.agentAnswers) {
      // The health check opens a connection whose end shows that the agent is gone. It is delayed to let a run go
      // first.
      setTimeout(() => this.#lookAt(client, onBroken).catch(reportFailure), LOOK_MS).unref();
      return client;
    }
    try {
      await this.#waitForAgent(client, live, signal);
      // Another server, or an earlier process of this one, may have opened contexts.
      if (!fresh) await kernels.learn(client, signal);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  async #lookAt(client: AgentHttpClient, onBroken?: () => void): Promise<void> {
    if (client.isClosed) return;
    await client.checkHealth(AbortSignal.timeout(ASK_MS)).catch(() => client.isClosed || onBroken?.());
  }

  /**
   * Waits until the agent answers. The socket accepts connections before the agent runs, so usually one request waits
   * there until the agent answers it.
   */
  async #waitForAgent(client: AgentHttpClient, live: Instance, signal: AbortSignal): Promise<void> {
    const backOff = new BackOff(PAUSES);
    for (;;) {
      try {
        return await client.checkHealth(signal);
      } catch (error) {
        if (!(error instanceof AgentError && error.kind === 'gone')) throw error;
        if (!(await this.#deps.find(live, signal))) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }
}

function socketPathOf({ sandboxId, place }: Instance): string {
  if (typeof place.unix !== 'string') throw new Error(`the instance of ${sandboxId} has no path of its agent`);
  return place.unix;
}
