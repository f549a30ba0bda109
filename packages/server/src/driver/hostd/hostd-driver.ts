import { BackOff } from '@cloche/node-support';
import {
  AGENT_PROTOCOL_VERSION,
  accepts,
  CapturedVersion,
  type CaptureInstance,
  type DeriveVersion,
  Instance as HostdInstance,
  InstanceHistory,
  InstanceList,
  type InstanceUse,
  InstanceUseList,
  LaunchedInstance,
  type LaunchSpec,
  type MadeVersion,
  MadeVersionList,
  type MeasuredInstance,
  MeasuredInstanceList,
  type MeasureInstances,
  type ProvideKernel,
  type StartedLanguage,
  StoppedInstance,
  TemplateVersionList,
  type TemplateVersionManifest,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { dialer } from '../../agent-client/agent-endpoint.ts';
import { readText } from '../../agent-client/bounded-body.ts';
import { AgentHttpClient } from '../../agent-client/http/agent-http-client.ts';
import { SharedBudget } from '../../agent-client/http/event-budget.ts';
import { ServerLineMemory } from '../../agent-client/http/line-memory.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import {
  type AgentClient,
  AgentError,
  CaptureError,
  type Instance,
  type InstanceName,
  type IsolationClaims,
  LaunchError,
  type Launched,
  type LaunchHints,
  type PlaceListing,
  type RuntimeDriver,
} from '../runtime-driver.ts';
import { HostdConnection, requireAccepted } from './hostd-connection.ts';
import { claimsOf } from './isolation-claims.ts';

const capturedVersion = Compile(CapturedVersion);
const launched = Compile(LaunchedInstance);
const foundInstance = Compile(HostdInstance);
const instanceList = Compile(InstanceList);
const instanceUseList = Compile(InstanceUseList);
const instanceHistory = Compile(InstanceHistory);
const measuredInstanceList = Compile(MeasuredInstanceList);
const stoppedInstance = Compile(StoppedInstance);
const templateVersionList = Compile(TemplateVersionList);
const madeVersionList = Compile(MadeVersionList);

/**
 * Time limit of a request that hostd answers at once. Only launches and stops take longer; hostd bounds its own steps.
 */
const ASK_MS = 10_000;
const STOP_MS = 60_000;
const PROVIDE_MS = 5_000;
/** Delay of the first health check after `connect`, so that the caller's first request precedes it. */
const LOOK_MS = 50;
/** Shortest time in milliseconds between two reports to hostd that a language is used. */
const NOTE_AGAIN_MS = 10_000;
/** Name of this driver's only place. */
const HERE = 'this host';
const MAX_METRICS_BYTES = 256 * 1024;
/** Pauses between health checks of an agent that does not listen yet. */
const PAUSES = { firstMs: 10, longestMs: 250 };

/** Launches instances through the host daemon on this machine. */
export class HostdDriver implements RuntimeDriver {
  readonly name = 'hostd';
  #isolation = claimsOf('crun');
  readonly #hostd: HostdConnection;
  readonly #lineMemory = new ServerLineMemory();
  readonly #events = new SharedBudget();
  /** The answers of hostd to launches, by the path of the instance. Each is kept until `connect`. */
  readonly #launched = new Map<string, { readonly agentAnswers: boolean; readonly kernelReady: boolean }>();
  readonly #noteAgainAt = new Map<StartedLanguage, number>();

  readonly #tracing: Tracing | undefined;

  /** @param socketPath `runPaths(runDir).hostdSocket` */
  constructor(socketPath: string, tracing?: Tracing) {
    this.#tracing = tracing;
    this.#hostd = new HostdConnection(socketPath, tracing);
  }

  /** Claims for the OCI runtime that hostd reported last. */
  get isolation(): IsolationClaims {
    return this.#isolation;
  }

  async launch(
    sandboxId: string,
    generation: number,
    spec: LaunchSpec,
    signal: AbortSignal,
    { startsBusy = false }: LaunchHints = {},
  ): Promise<Launched> {
    const path = instancePath(sandboxId, generation);
    requireAgents(await this.#hostd.peer(signal));
    const query = startsBusy ? '?starts=busy' : '';
    const answer = await this.#hostd.ask(launched, 'PUT', `${path}${query}`, signal, spec);
    const { agentAnswers, kernelReady, ...instance } = answer;
    this.#launched.set(path, { agentAnswers, kernelReady });
    return { instance: located(instance), agentAnswers };
  }

  async connect(live: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> {
    const path = instancePath(live.sandboxId, live.generation);
    const fresh = this.#launched.get(path);
    this.#launched.delete(path);
    const client = new AgentHttpClient(dialer({ unix: socketPathOf(live) }), {
      kernelReady: fresh?.kernelReady ?? false,
      ...(this.#isolation.pythonKernels === 'forked' && { provideKernel: () => this.#provideKernel(live) }),
      noteLanguage: (language) => this.#noteLanguage(language),
      serverLineMemory: this.#lineMemory,
      events: this.#events,
      tracing: this.#tracing,
      ...(onBroken && { onBroken }),
    });
    if (fresh?.agentAnswers) {
      // The health check opens a connection whose end shows that the agent is gone. It is delayed to let a run go
      // first.
      setTimeout(() => void this.#lookAt(client, onBroken), LOOK_MS).unref();
      return client;
    }
    try {
      await this.#waitForAgent(client, live, signal);
      // Another server, or an earlier process of this one, may have opened contexts.
      if (!fresh) await client.learnContexts(signal);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  async stop(sandboxId: string, generation: number): Promise<InstanceUse | undefined> {
    const path = instancePath(sandboxId, generation);
    this.#launched.delete(path);
    return (await this.#hostd.ask(stoppedInstance, 'DELETE', path, AbortSignal.timeout(STOP_MS))).use;
  }

  async uses(): Promise<readonly InstanceUse[]> {
    return (await this.#hostd.ask(instanceUseList, 'GET', '/uses', AbortSignal.timeout(ASK_MS))).uses;
  }

  async measure(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly MeasuredInstance[]> {
    const names = instances.map(({ sandboxId, generation }) => ({ sandboxId, generation }));
    const message = { instances: names } satisfies MeasureInstances;
    const path = '/measurements';
    return (await this.#hostd.ask(measuredInstanceList, 'POST', path, bounded(signal), message)).measured;
  }

  async history(
    { sandboxId, generation }: InstanceName,
    fromMs: number,
    signal: AbortSignal,
  ): Promise<InstanceHistory> {
    const path = `${instancePath(sandboxId, generation)}/measurements?fromMs=${fromMs}`;
    return this.#hostd.ask(instanceHistory, 'GET', path, bounded(signal));
  }

  /** Asks hostd for a Python kernel. Rejects when hostd has none. */
  async #provideKernel({ sandboxId, generation }: Instance): Promise<void> {
    const path = `${instancePath(sandboxId, generation)}/kernels`;
    const message = { language: 'python' } satisfies ProvideKernel;
    const response = await this.#hostd.request('POST', path, AbortSignal.timeout(PROVIDE_MS), message);
    await response.body.dump();
  }

  /** Reports a language to hostd. A failure is ignored: the report only makes later contexts start faster. */
  #noteLanguage(language: StartedLanguage): void {
    const now = performance.now();
    if (now < (this.#noteAgainAt.get(language) ?? 0)) return;
    this.#noteAgainAt.set(language, now + NOTE_AGAIN_MS);
    this.#hostd.request('PUT', `/languages/${language}`, AbortSignal.timeout(ASK_MS)).then(
      (response) => response.body.dump(),
      () => undefined,
    );
  }

  async find(instance: Instance, signal: AbortSignal): Promise<Instance | undefined> {
    const limit = bounded(signal);
    const { protocolVersion } = await this.#hostd.peer(limit);
    if (protocolVersion === 4) return (await this.#listHere(limit)).find((one) => isSame(one, instance));
    try {
      return located(await this.#hostd.ask(foundInstance, 'GET', pathOf(instance), limit));
    } catch (error) {
      if (error instanceof CaptureError && error.kind === 'gone') return undefined;
      throw error;
    }
  }

  async list(): Promise<readonly PlaceListing[]> {
    try {
      return [{ place: HERE, instances: await this.#listHere(AbortSignal.timeout(ASK_MS)) }];
    } catch (error) {
      if (!(error instanceof LaunchError)) throw error;
      return [{ place: HERE, unknown: error }];
    }
  }

  async #listHere(signal: AbortSignal): Promise<readonly Instance[]> {
    return (await this.#hostd.ask(instanceList, 'GET', '/instances', signal)).instances.map(located);
  }

  async templateVersions(): Promise<readonly TemplateVersionManifest[]> {
    const signal = AbortSignal.timeout(ASK_MS);
    return (await this.#hostd.ask(templateVersionList, 'GET', '/template-versions', signal)).templateVersions;
  }

  async capture(
    { sandboxId, generation }: InstanceName,
    request: CaptureInstance,
    signal: AbortSignal,
  ): Promise<CapturedVersion> {
    const path = `${instancePath(sandboxId, generation)}/capture`;
    return this.#hostd.ask(capturedVersion, 'POST', path, signal, request);
  }

  async deriveVersion(request: DeriveVersion, signal: AbortSignal): Promise<CapturedVersion> {
    return this.#hostd.ask(capturedVersion, 'POST', '/captured-versions', signal, request);
  }

  async madeVersions(): Promise<readonly MadeVersion[]> {
    return (await this.#hostd.ask(madeVersionList, 'GET', '/made-versions', AbortSignal.timeout(ASK_MS))).versions;
  }

  async removeVersion({ id, madeAt }: MadeVersion): Promise<void> {
    const path = `/captured-versions/${encodeURIComponent(id)}?madeAt=${madeAt}`;
    const response = await this.#hostd.request('DELETE', path, AbortSignal.timeout(STOP_MS));
    await response.body.dump();
  }

  async metrics(signal: AbortSignal): Promise<string> {
    const response = await this.#hostd.request('GET', '/metrics', signal);
    return readText(response.body, MAX_METRICS_BYTES);
  }

  async check(signal: AbortSignal): Promise<void> {
    const peer = await this.#hostd.askHealth(signal);
    requireAccepted(peer);
    requireAgents(peer);
    this.#isolation = claimsOf(peer.ociRuntime);
  }

  async close(): Promise<void> {
    await this.#hostd.close();
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
        if (!(await this.find(live, signal))) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }
}

/**
 * Converts an instance of hostd. The socket's path is stored outside of `place` too, because servers of the previous
 * version read it there.
 */
function located(instance: HostdInstance): Instance {
  return { ...instance, place: { unix: instance.agentSocketPath } };
}

/** Returns the path of the agent's socket. Also reads instances that a server of the previous version has stored. */
function socketPathOf({ place, ...stored }: Instance & Partial<HostdInstance>): string {
  const path = place?.unix ?? stored.agentSocketPath;
  if (typeof path !== 'string') throw new Error(`the instance of ${stored.sandboxId} has no path of its agent`);
  return path;
}

function isSame(one: InstanceName, other: InstanceName): boolean {
  return one.sandboxId === other.sandboxId && one.generation === other.generation;
}

/** @throws LaunchError `incompatible` if this server does not speak to the agents that hostd launches */
function requireAgents({ agentProtocolVersion: theirs = 2 }: { agentProtocolVersion?: number }): void {
  if (accepts(AGENT_PROTOCOL_VERSION, theirs)) return;
  throw new LaunchError('incompatible', `hostd launches agents of protocol ${theirs}, not ${AGENT_PROTOCOL_VERSION}`);
}

/** Returns a signal that also aborts when hostd does not answer in time. */
function bounded(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
}

function pathOf({ sandboxId, generation }: InstanceName): string {
  return instancePath(sandboxId, generation);
}

function instancePath(sandboxId: string, generation: number): string {
  return `/instances/${encodeURIComponent(sandboxId)}/${generation}`;
}
