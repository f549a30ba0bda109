import { BackOff } from '@cloche/node-support';
import {
  CapturedVersion,
  type CaptureInstance,
  type DeriveVersion,
  HOSTD_PROTOCOL_VERSION,
  HostdErrorBody,
  HostdHealth,
  type Instance,
  InstanceHistory,
  InstanceList,
  type InstanceUse,
  InstanceUseList,
  LaunchedInstance,
  type LaunchSpec,
  type MeasuredInstance,
  MeasuredInstanceList,
  type MeasureInstances,
  type ProvideKernel,
  type StartedLanguage,
  StoppedInstance,
  TemplateVersionList,
  type TemplateVersionManifest,
} from '@cloche/protocol';
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { type Dispatcher, Pool } from 'undici';
import { dialer } from '../../agent-client/agent-endpoint.ts';
import { isConnectionError } from '../../agent-client/agent-errors.ts';
import { readJson, readText } from '../../agent-client/bounded-body.ts';
import { AgentHttpClient } from '../../agent-client/http/agent-http-client.ts';
import { SharedBudget } from '../../agent-client/http/event-budget.ts';
import { ServerLineMemory } from '../../agent-client/http/line-memory.ts';
import {
  type AgentClient,
  AgentError,
  CaptureError,
  type InstanceName,
  type IsolationClaims,
  LaunchError,
  type Launched,
  type RuntimeDriver,
} from '../runtime-driver.ts';
import { claimsOf } from './isolation-claims.ts';

const health = Compile(HostdHealth);
const capturedVersion = Compile(CapturedVersion);
const launched = Compile(LaunchedInstance);
const instanceList = Compile(InstanceList);
const instanceUseList = Compile(InstanceUseList);
const instanceHistory = Compile(InstanceHistory);
const measuredInstanceList = Compile(MeasuredInstanceList);
const stoppedInstance = Compile(StoppedInstance);
const templateVersionList = Compile(TemplateVersionList);
const errorBody = Compile(HostdErrorBody);

/** Connections to hostd. Launches and stops are few and slow: more at once would only queue in the kernel. */
const CONNECTIONS = 32;
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
/** Largest response, a list of instances, uses or versions. Everything else is far smaller. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const MAX_METRICS_BYTES = 256 * 1024;
/** Pauses between health checks of an agent that does not listen yet. */
const PAUSES = { firstMs: 10, longestMs: 250 };

/** Launches instances through the host daemon on this machine. */
export class HostdDriver implements RuntimeDriver {
  readonly name = 'hostd';
  #isolation = claimsOf('crun');
  readonly #pool: Pool;
  readonly #lineMemory = new ServerLineMemory();
  readonly #events = new SharedBudget();
  /**
   * Paths of instances whose agents hostd found ready, until `connect`. The value says whether a Python kernel waits
   * there.
   */
  readonly #answering = new Map<string, boolean>();

  readonly #noteAgainAt = new Map<StartedLanguage, number>();

  /** @param socketPath `runPaths(runDir).hostdSocket` */
  constructor(socketPath: string) {
    this.#pool = new Pool('http://hostd', {
      socketPath,
      connections: CONNECTIONS,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Claims for the OCI runtime that hostd reported last. */
  get isolation(): IsolationClaims {
    return this.#isolation;
  }

  async launch(sandboxId: string, generation: number, spec: LaunchSpec, signal: AbortSignal): Promise<Launched> {
    const response = await this.#request('PUT', instancePath(sandboxId, generation), signal, spec);
    const { agentAnswers, kernelReady, ...instance } = await readAnswer(response, launched);
    if (agentAnswers) this.#answering.set(instancePath(sandboxId, generation), kernelReady);
    return { instance, agentAnswers };
  }

  async connect(live: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> {
    const path = instancePath(live.sandboxId, live.generation);
    const client = new AgentHttpClient(dialer({ unix: live.agentSocketPath }), {
      kernelReady: this.#answering.get(path) ?? false,
      ...(this.#isolation.pythonKernels === 'forked' && { provideKernel: () => this.#provideKernel(live) }),
      noteLanguage: (language) => this.#noteLanguage(language),
      serverLineMemory: this.#lineMemory,
      events: this.#events,
      ...(onBroken && { onBroken }),
    });
    if (this.#answering.delete(path)) {
      // The health check opens a connection whose end shows that the agent is gone. It is delayed to let a run go
      // first.
      setTimeout(() => void this.#lookAt(client, onBroken), LOOK_MS).unref();
      return client;
    }
    try {
      await this.#waitForAgent(client, live, signal);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  async stop(sandboxId: string, generation: number): Promise<InstanceUse | undefined> {
    const path = instancePath(sandboxId, generation);
    this.#answering.delete(path);
    const response = await this.#request('DELETE', path, AbortSignal.timeout(STOP_MS));
    return (await readAnswer(response, stoppedInstance)).use;
  }

  async uses(): Promise<readonly InstanceUse[]> {
    const response = await this.#request('GET', '/uses', AbortSignal.timeout(ASK_MS));
    return (await readAnswer(response, instanceUseList)).uses;
  }

  async measure(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly MeasuredInstance[]> {
    const names = instances.map(({ sandboxId, generation }) => ({ sandboxId, generation }));
    const message = { instances: names } satisfies MeasureInstances;
    const response = await this.#request('POST', '/measurements', bounded(signal), message);
    return (await readAnswer(response, measuredInstanceList)).measured;
  }

  async history(
    { sandboxId, generation }: InstanceName,
    fromMs: number,
    signal: AbortSignal,
  ): Promise<InstanceHistory> {
    const path = `${instancePath(sandboxId, generation)}/measurements?fromMs=${fromMs}`;
    return readAnswer(await this.#request('GET', path, bounded(signal)), instanceHistory);
  }

  /** Asks hostd for a Python kernel. Rejects when hostd has none. */
  async #provideKernel({ sandboxId, generation }: Instance): Promise<void> {
    const path = `${instancePath(sandboxId, generation)}/kernels`;
    const message = { language: 'python' } satisfies ProvideKernel;
    const response = await this.#request('POST', path, AbortSignal.timeout(PROVIDE_MS), message);
    await response.body.dump();
  }

  /** Reports a language to hostd. A failure is ignored: the report only makes later contexts start faster. */
  #noteLanguage(language: StartedLanguage): void {
    const now = performance.now();
    if (now < (this.#noteAgainAt.get(language) ?? 0)) return;
    this.#noteAgainAt.set(language, now + NOTE_AGAIN_MS);
    this.#request('PUT', `/languages/${language}`, AbortSignal.timeout(ASK_MS)).then(
      (response) => response.body.dump(),
      () => undefined,
    );
  }

  async list(): Promise<readonly Instance[]> {
    const response = await this.#request('GET', '/instances', AbortSignal.timeout(ASK_MS));
    return (await readAnswer(response, instanceList)).instances;
  }

  async templateVersions(): Promise<readonly TemplateVersionManifest[]> {
    const response = await this.#request('GET', '/template-versions', AbortSignal.timeout(ASK_MS));
    return (await readAnswer(response, templateVersionList)).templateVersions;
  }

  async capture(
    { sandboxId, generation }: InstanceName,
    request: CaptureInstance,
    signal: AbortSignal,
  ): Promise<CapturedVersion> {
    const path = `${instancePath(sandboxId, generation)}/capture`;
    return readAnswer(await this.#request('POST', path, signal, request), capturedVersion);
  }

  async deriveVersion(request: DeriveVersion, signal: AbortSignal): Promise<CapturedVersion> {
    return readAnswer(await this.#request('POST', '/captured-versions', signal, request), capturedVersion);
  }

  async removeVersion(versionId: string): Promise<void> {
    const path = `/captured-versions/${encodeURIComponent(versionId)}`;
    const response = await this.#request('DELETE', path, AbortSignal.timeout(STOP_MS));
    await response.body.dump();
  }

  async metrics(signal: AbortSignal): Promise<string> {
    const response = await this.#request('GET', '/metrics', signal);
    return readText(response.body, MAX_METRICS_BYTES);
  }

  async check(signal: AbortSignal): Promise<void> {
    const { protocolVersion, ociRuntime } = await readAnswer(await this.#request('GET', '/health', signal), health);
    if (protocolVersion !== HOSTD_PROTOCOL_VERSION) {
      throw new LaunchError('unreachable', `hostd speaks protocol ${protocolVersion}, not ${HOSTD_PROTOCOL_VERSION}`);
    }
    this.#isolation = claimsOf(ociRuntime);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
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
        const alive = (await this.list()).some(
          ({ sandboxId, generation }) => sandboxId === live.sandboxId && generation === live.generation,
        );
        if (!alive) throw error;
        await backOff.pause(signal);
        signal.throwIfAborted();
      }
    }
  }

  /** @throws LaunchError or CaptureError for every response but a success, and `unreachable` without a response. */
  async #request(
    method: 'GET' | 'PUT' | 'POST' | 'DELETE',
    path: string,
    signal: AbortSignal,
    message?: object,
  ): Promise<Dispatcher.ResponseData> {
    let response: Dispatcher.ResponseData;
    try {
      const body = message && { body: JSON.stringify(message), headers: { 'content-type': 'application/json' } };
      response = await this.#pool.request({ method, path, signal, ...body });
    } catch (error) {
      // An abort by the caller is passed on. A time limit of this driver means that hostd does not respond.
      if (signal.aborted && signal.reason?.name !== 'TimeoutError') throw signal.reason;
      const what = isConnectionError(error) ? 'hostd does not answer' : 'hostd sent an answer that is not HTTP';
      throw new LaunchError('unreachable', what, { cause: error });
    }
    if (response.statusCode < 300) return response;
    const { error } = await readAnswer(response, errorBody);
    const capture = CAPTURE_KINDS.get(error.code);
    if (capture) throw new CaptureError(capture, error.message);
    throw new LaunchError(ERROR_KINDS.get(error.code) ?? 'failed', `${error.code}: ${error.message}`);
  }
}

/** @throws LaunchError for a response that breaks off or does not match the protocol. */
async function readAnswer<S extends TSchema>(
  response: Dispatcher.ResponseData,
  schema: Validator<Record<never, never>, S>,
) {
  try {
    return await readJson(response.body, schema, MAX_BODY_BYTES);
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    throw new LaunchError('unreachable', `hostd sent an unreadable answer: ${what}`, { cause: error });
  }
}

const ERROR_KINDS: ReadonlyMap<string, LaunchError['kind']> = new Map([
  ['template_not_found', 'template_not_found'],
  ['network_mode_unsupported', 'unsupported'],
  ['no_capacity', 'no_capacity'],
]);

const CAPTURE_KINDS: ReadonlyMap<string, CaptureError['kind']> = new Map([
  ['capture_refused', 'refused'],
  ['instance_not_found', 'gone'],
  ['version_in_use', 'in_use'],
]);

/** Returns a signal that also aborts when hostd does not answer in time. */
function bounded(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
}

function instancePath(sandboxId: string, generation: number): string {
  return `/instances/${encodeURIComponent(sandboxId)}/${generation}`;
}
