import {
  AGENT_PROTOCOL_VERSION,
  accepts,
  CapturedVersion,
  type CapturedVersionRef,
  CapturedVersionRefList,
  type CaptureInstance,
  type DeriveVersion,
  type HostdHealth,
  Instance as HostdInstance,
  type HostWarning,
  InstanceHistory,
  InstanceList,
  type InstanceUse,
  InstanceUseList,
  LaunchedInstance,
  type LaunchSpec,
  type MeasuredInstance,
  MeasuredInstanceList,
  type MeasureInstances,
  OWNER_HEADER,
  StoppedInstance,
  TemplateVersionList,
  type TemplateVersionManifest,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { readText } from '../../agent-client/bounded-body.ts';
import type { RequestTracing } from '../../tracing.ts';
import {
  type AgentClient,
  CaptureError,
  type Freezing,
  type Instance,
  type InstanceName,
  type IsolationClaims,
  LaunchError,
  type Launched,
  type LaunchHints,
  type Metering,
  type Parking,
  type PlaceListing,
  type RuntimeDriver,
  type Versions,
} from '../runtime-driver.ts';
import { ConnectAgent } from './connect-agent.ts';
import { ASK_MS, asGone, HostdConnection, requireAccepted } from './hostd-connection.ts';
import { HostdParking } from './hostd-parking.ts';
import { pathOf } from './instance-path.ts';

const capturedVersion = Compile(CapturedVersion);
const launched = Compile(LaunchedInstance);
const foundInstance = Compile(HostdInstance);
const instanceList = Compile(InstanceList);
const instanceUseList = Compile(InstanceUseList);
const instanceHistory = Compile(InstanceHistory);
const measuredInstanceList = Compile(MeasuredInstanceList);
const stoppedInstance = Compile(StoppedInstance);
const templateVersionList = Compile(TemplateVersionList);
const capturedVersionRefList = Compile(CapturedVersionRefList);

const STOP_MS = 60_000;
/** Name of this driver's only place. */
const HERE = 'this host';
const MAX_METRICS_BYTES = 256 * 1024;

/** Launches instances through the host daemon on this machine. */
export class HostdDriver implements RuntimeDriver, Metering, Versions, Freezing {
  readonly name = 'hostd';
  readonly metering = this;
  readonly versions = this;
  readonly #hostd: HostdConnection;
  readonly #agents: ConnectAgent;
  readonly #parking: HostdParking;

  /** @param socketPath `runPaths(runDir).hostdSocket` */
  constructor(socketPath: string, tracing?: RequestTracing) {
    this.#hostd = new HostdConnection(socketPath, tracing);
    const find = (instance: Instance, signal: AbortSignal) => this.find(instance, signal);
    this.#agents = new ConnectAgent({ hostd: this.#hostd, find, tracing });
    this.#parking = new HostdParking(this.#hostd, (path) => this.#agents.forget(path));
  }

  get isolation(): IsolationClaims | undefined {
    return this.#hostd.claims;
  }

  get freezing(): Freezing | undefined {
    return this.#hostd.canFreeze ? this : undefined;
  }

  get parking(): Parking | undefined {
    return this.#hostd.keepsDisks ? this.#parking : undefined;
  }

  async launch(
    sandboxId: string,
    generation: number,
    spec: LaunchSpec,
    signal: AbortSignal,
    { expectsImmediateLoad = false, owner }: LaunchHints = {},
  ): Promise<Launched> {
    const path = pathOf({ sandboxId, generation });
    requireAgents(await this.#hostd.peer(signal));
    if (spec.source.kind === 'parked') this.#parking.requireAvailable();
    const query = expectsImmediateLoad ? '?starts=busy' : '';
    const answer = await this.#hostd.ask(launched, 'PUT', `${path}${query}`, signal, spec, ownedBy(owner));
    const { agentAnswers, kernelReady, ...instance } = answer;
    this.#agents.noteLaunched(path, { agentAnswers, kernelReady });
    return { instance: located(instance), agentAnswers };
  }

  async expectLaunch(spec: LaunchSpec, owner: string, signal: AbortSignal): Promise<void> {
    const response = await this.#hostd.request('POST', '/expected-launches', signal, spec, ownedBy(owner));
    await response.body.dump();
  }

  connect(live: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> {
    return this.#agents.connect(live, signal, onBroken);
  }

  async stop(sandboxId: string, generation: number): Promise<InstanceUse | undefined> {
    const path = pathOf({ sandboxId, generation });
    this.#agents.forget(path);
    return (await this.#hostd.ask(stoppedInstance, 'DELETE', path, AbortSignal.timeout(STOP_MS))).use;
  }

  async uses(): Promise<readonly InstanceUse[]> {
    return (await this.#hostd.ask(instanceUseList, 'GET', '/uses', AbortSignal.timeout(ASK_MS))).uses;
  }

  async usesOf(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly InstanceUse[]> {
    const names = instances.map(({ sandboxId, generation }) => ({ sandboxId, generation }));
    const message = { instances: names } satisfies MeasureInstances;
    return (await this.#hostd.ask(instanceUseList, 'POST', '/uses', bounded(signal), message)).uses;
  }

  async measure(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly MeasuredInstance[]> {
    const names = instances.map(({ sandboxId, generation }) => ({ sandboxId, generation }));
    const message = { instances: names } satisfies MeasureInstances;
    const path = '/measurements';
    return (await this.#hostd.ask(measuredInstanceList, 'POST', path, bounded(signal), message)).measured;
  }

  async history(instance: InstanceName, fromMs: number, signal: AbortSignal): Promise<InstanceHistory> {
    const path = `${pathOf(instance)}/measurements?fromMs=${fromMs}`;
    return this.#hostd.ask(instanceHistory, 'GET', path, bounded(signal));
  }

  async find(instance: Instance, signal: AbortSignal): Promise<Instance | undefined> {
    try {
      return located(await this.#hostd.ask(foundInstance, 'GET', pathOf(instance), bounded(signal)));
    } catch (error) {
      if (error instanceof CaptureError && error.kind === 'gone') return undefined;
      throw error;
    }
  }

  async list(): Promise<readonly PlaceListing[]> {
    try {
      const { instances } = await this.#hostd.ask(instanceList, 'GET', '/instances', AbortSignal.timeout(ASK_MS));
      return [{ place: HERE, instances: instances.map(located) }];
    } catch (error) {
      if (!(error instanceof LaunchError)) throw error;
      return [{ place: HERE, unknown: error }];
    }
  }

  async templateVersions(): Promise<readonly TemplateVersionManifest[]> {
    const signal = AbortSignal.timeout(ASK_MS);
    return (await this.#hostd.ask(templateVersionList, 'GET', '/template-versions', signal)).templateVersions;
  }

  freeze(instance: InstanceName, signal: AbortSignal): Promise<void> {
    return this.#actOn(instance, 'freeze', signal);
  }

  thaw(instance: InstanceName, signal: AbortSignal): Promise<void> {
    return this.#actOn(instance, 'thaw', signal);
  }

  async #actOn(instance: InstanceName, action: 'freeze' | 'thaw', signal: AbortSignal): Promise<void> {
    const response = await asGone(this.#hostd.request('POST', `${pathOf(instance)}/${action}`, bounded(signal)));
    await response.body.dump();
  }

  async capture(instance: InstanceName, request: CaptureInstance, signal: AbortSignal): Promise<CapturedVersion> {
    return this.#hostd.ask(capturedVersion, 'POST', `${pathOf(instance)}/capture`, signal, request);
  }

  async deriveVersion(request: DeriveVersion, signal: AbortSignal): Promise<CapturedVersion> {
    return this.#hostd.ask(capturedVersion, 'POST', '/captured-versions', signal, request);
  }

  async capturedVersionRefs(): Promise<readonly CapturedVersionRef[]> {
    return (await this.#hostd.ask(capturedVersionRefList, 'GET', '/made-versions', AbortSignal.timeout(ASK_MS)))
      .versions;
  }

  async removeVersion({ id, madeAt }: CapturedVersionRef): Promise<void> {
    const path = `/captured-versions/${encodeURIComponent(id)}?madeAt=${madeAt}`;
    const response = await this.#hostd.request('DELETE', path, AbortSignal.timeout(STOP_MS));
    await response.body.dump();
  }

  async metrics(signal: AbortSignal): Promise<string> {
    const response = await this.#hostd.request('GET', '/metrics', signal);
    return readText(response.body, MAX_METRICS_BYTES);
  }

  async check(signal: AbortSignal): Promise<readonly HostWarning[]> {
    const peer = await this.#hostd.askHealth(signal);
    requireAccepted(peer);
    requireAgents(peer);
    return peer.warnings;
  }

  async close(): Promise<void> {
    await this.#hostd.close();
  }
}

function located({ agentSocketPath, ...instance }: HostdInstance): Instance {
  return { ...instance, place: { unix: agentSocketPath } };
}

function ownedBy(owner: string | undefined): Record<string, string> {
  return owner === undefined ? {} : { [OWNER_HEADER]: owner };
}

/** @throws LaunchError `incompatible` if this server does not speak to the agents that hostd launches */
function requireAgents({ agentProtocolVersion: theirs }: HostdHealth): void {
  if (accepts(AGENT_PROTOCOL_VERSION, theirs)) return;
  throw new LaunchError('incompatible', `hostd launches agents of protocol ${theirs}, not ${AGENT_PROTOCOL_VERSION}`);
}

/** Returns a signal that also aborts when hostd does not answer in time. */
function bounded(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
}
