import type { Duplex } from 'node:stream';
import type {
  AgentRunEvent,
  CapturedVersion,
  CapturedVersionRef,
  CaptureInstance,
  DeriveVersion,
  HostWarning,
  InstanceHistory,
  InstanceUse,
  IsolationClaims,
  Language,
  LaunchSpec,
  MeasuredInstance,
  OpenContext,
  StartRun,
  TemplateVersionManifest,
} from '@cloche/protocol';
import type { AgentCommands } from './agent-commands.ts';
import type { AgentFiles } from './agent-files.ts';
import type { Parking } from './parking.ts';
import type { ResultMemory } from './result-memory.ts';

export type { InstanceHistory, InstanceUse, IsolationClaims, LaunchSpec, MeasuredInstance } from '@cloche/protocol';
export * from './agent-commands.ts';
export * from './agent-files.ts';
export * from './parking.ts';

/** Where an instance lives. Only the driver that launched the instance reads it; it is stored as JSON. */
export type Place = Readonly<Record<string, unknown>>;

/** A live incarnation of a sandbox. */
export interface Instance {
  readonly sandboxId: string;
  readonly generation: number;
  readonly templateVersionId: string;
  readonly startedAt: string;
  readonly place: Place;
  /** Set by `find` and `list` while the instance is frozen. */
  readonly isFrozen?: true;
}

/**
 * The live instances of one host or cluster, or the error if it did not answer. An instance that is missing from
 * `instances` may still be alive at a place that is `unknown`.
 */
export type PlaceListing =
  | { readonly place: string; readonly instances: readonly Instance[] }
  | { readonly place: string; readonly unknown: Error };

export interface Launched {
  readonly instance: Instance;
  /** Whether the agent is known to answer: the instance was launched ahead of demand, so connecting takes no time. */
  readonly agentAnswers: boolean;
}

/** Facts about the use of a sandbox that the server knows at its launch. A driver may ignore it. */
export interface LaunchHints {
  /** Whether the sandbox computes from its start, so that the driver should delay work for later sandboxes. */
  readonly expectsImmediateLoad?: boolean | undefined;
  /** The organization of the sandbox. Waiting instances with a client's files count in its share. */
  readonly owner?: string | undefined;
}

/** Names one incarnation of a sandbox. */
export type InstanceName = Pick<Instance, 'sandboxId' | 'generation'>;

/** Creates and destroys isolated instances. Knows nothing of HTTP, tenants or SQL. */
export interface Instances {
  /** The isolation that the runtime last said to enforce; undefined until it has answered. */
  readonly isolation: IsolationClaims | undefined;
  /**
   * Launches an instance. Leaves nothing behind if it rejects or `signal` aborts. Idempotent by sandbox and generation.
   */
  launch(
    sandboxId: string,
    generation: number,
    spec: LaunchSpec,
    signal: AbortSignal,
    hints?: LaunchHints,
  ): Promise<Launched>;
  /**
   * Announces that sandboxes like this one will be launched, so that the driver can launch one ahead. Resolves when that
   * was done or will not be done.
   */
  expectLaunch?(spec: LaunchSpec, owner: string, signal: AbortSignal): Promise<void>;
  /**
   * Resolves when the agent answers. Throws `gone` if the instance's place reports that the instance is not alive.
   * Calls `onBroken`, possibly more than once, when the last connection to the agent has closed: the agent may be gone,
   * or the connections may only have been idle for long. Does not call it after `close`.
   */
  connect(instance: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient>;
  /**
   * Resolves when nothing runs in the instance and `find` no longer returns it. Idempotent: a missing instance is
   * success. Resolves with what the instance used up to its end; with undefined if it was gone already, or where use is
   * not metered.
   */
  stop(sandboxId: string, generation: number): Promise<InstanceUse | undefined>;
  /**
   * Looks an instance up at its place. Returns undefined if the place reports that the instance is not alive. Throws
   * `LaunchError` if the place does not answer, which says nothing about the instance.
   */
  find(instance: Instance, signal: AbortSignal): Promise<Instance | undefined>;
  /** Returns all live instances by place, for the sweep. A place that does not answer is `unknown`. */
  list(): Promise<readonly PlaceListing[]>;
  /** Returns the curated template versions that instances can be launched from. */
  templateVersions(): Promise<readonly TemplateVersionManifest[]>;
  /** Returns what keeps instances from the network. Rejects when instances cannot be launched now. */
  check(signal: AbortSignal): Promise<readonly HostWarning[]>;
  /** Returns further metrics of the host in Prometheus' text format. The text is untrusted: see `hostMetrics`. */
  metrics?(signal: AbortSignal): Promise<string>;
}

/** Says what instances use. */
export interface Metering {
  /** Returns what each live instance has used so far. */
  uses(): Promise<readonly InstanceUse[]>;
  /**
   * Returns what those of the named instances that live have used so far; at most `MAX_MEASURED_INSTANCES`. A host daemon
   * of an earlier release refuses it.
   */
  usesOf(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly InstanceUse[]>;
  /** Measures those of the named instances that live; at most `MAX_MEASURED_INSTANCES`. */
  measure(instances: readonly InstanceName[], signal: AbortSignal): Promise<readonly MeasuredInstance[]>;
  /**
   * Measures an instance, and returns its samples of the last hour at or after `fromMs`. The samples begin anew when
   * the host daemon restarts.
   */
  history(instance: InstanceName, fromMs: number, signal: AbortSignal): Promise<InstanceHistory>;
}

/** Makes template versions of the files of instances. */
export interface Versions {
  /**
   * Makes a version of an instance's files. Kills its processes first; the instance has ended when this settles. Throws
   * `CaptureError`, `LaunchError`.
   */
  capture(instance: InstanceName, request: CaptureInstance, signal: AbortSignal): Promise<CapturedVersion>;
  /**
   * Makes a version with the files of another one. Throws `LaunchError`: `template_not_found` if the other version does
   * not exist.
   */
  deriveVersion(request: DeriveVersion, signal: AbortSignal): Promise<CapturedVersion>;
  /**
   * Returns the captured versions except snapshots, with the time of the latest `capture` or `deriveVersion` that made
   * each.
   */
  capturedVersionRefs(): Promise<readonly CapturedVersionRef[]>;
  /**
   * Removes a captured version. Idempotent. Throws `CaptureError` with `in_use` while an instance needs it, or if it
   * was captured again after `version.madeAt`, because a request to remove it may arrive late.
   */
  removeVersion(version: CapturedVersionRef): Promise<void>;
}

/** Stops and continues instances without ending them. Their memory is kept, and their agents do not answer meanwhile. */
export interface Freezing {
  /**
   * Resolves when nothing of the instance executes. Idempotent. Throws `LaunchError`, `failed` if the instance goes on,
   * and `AgentError` `gone` if its place reports that it is not alive.
   */
  freeze(instance: InstanceName, signal: AbortSignal): Promise<void>;
  /** Lets a frozen instance go on. Idempotent. Throws as `freeze`. */
  thaw(instance: InstanceName, signal: AbortSignal): Promise<void>;
}

/** Runs sandboxes, for example by hostd. A runtime may lack metering, captures of versions, freezing and parking. */
export interface RuntimeDriver extends Instances {
  readonly name: string;
  readonly metering?: Metering | undefined;
  readonly versions?: Versions | undefined;
  /** Undefined where instances cannot be frozen, and until the place has answered once. */
  readonly freezing?: Freezing | undefined;
  /** Undefined where disks end with their instances, and until the place has answered once. */
  readonly parking?: Parking | undefined;
}

/** A run's request without its context. */
export type RunCell = Omit<StartRun, 'contextId'>;

/** Client of one instance's agent. Its results have been checked against the protocol and limited in size. */
export interface AgentClient {
  readonly commands: AgentCommands;
  readonly files: AgentFiles;
  /** Returns whether anything runs for any server: a run, a command, or a terminal with a client. */
  isRunning(signal: AbortSignal): Promise<boolean>;
  /**
   * Closes the agent's gate, so that it refuses work with `pausing` until `resume`. Idempotent by token. Resolves with
   * the number of runs and waited commands in progress, and with `isIdle` of transfers of files, and does nothing, if there
   * are some and `force` is false. Throws
   * `AgentError`, `not_found` if the agent is of a release that has no gate. A gate opens again by itself, after
   * `GATE_TICKS` seconds in which the instance was not frozen.
   */
  pause(
    token: string,
    options: { readonly force: boolean; readonly isIdle?: boolean },
    signal: AbortSignal,
  ): Promise<{ running: number } | undefined>;
  /**
   * Opens the gate that `pause` closed with this token. Idempotent: a gate that is open, or was closed with another
   * token, stays as it is.
   * @param woken 32 bytes for generators of random numbers, in base64, and the time in milliseconds since 1970
   */
  resume(token: string, woken: { entropy: string; now: number }, signal: AbortSignal): Promise<void>;
  setEnvironment(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  /** Lets the sandbox's user run commands as root by `sudo`. Idempotent. */
  permitSudo(signal: AbortSignal): Promise<void>;
  openContext(
    contextId: string,
    request: OpenContext,
    signal: AbortSignal,
  ): Promise<{ cwd: string; language: Language }>;
  /** Closes a context. Idempotent. */
  closeContext(contextId: string, signal: AbortSignal): Promise<void>;
  interrupt(contextId: string, signal: AbortSignal): Promise<void>;
  /** Passes a client's answer to the run that the context executes. */
  answer(contextId: string, message: string, signal: AbortSignal): Promise<void>;
  restart(contextId: string, signal: AbortSignal): Promise<void>;
  /**
   * Runs code and yields its events, the last of which is `done`. Aborting cancels the run. Requests memory from
   * `resultMemory` before it reads output. Throws `AgentError` when the agent breaks the protocol or is gone.
   */
  run(
    contextId: string,
    request: RunCell,
    signal: AbortSignal,
    resultMemory?: ResultMemory,
  ): AsyncIterable<AgentRunEvent>;
  /**
   * Opens a connection to `port` of the sandbox's loopback. The caller destroys it. `signal` bounds only the opening.
   * Throws `AgentError`, with `port_closed` where nothing listens.
   */
  openTunnel(port: number, signal: AbortSignal): Promise<Duplex>;
  close(): Promise<void>;
}

/**
 * A failure of the agent. `gone`: the connection broke; `misbehaved`: the agent broke the protocol; `busy`: too many
 * runs are active or waiting; `internal`: the agent itself failed; `incompatible`: the agent speaks a version of the
 * protocol that this server does not, and the sandbox lives on; `pausing`: the sandbox is about to be frozen, and nothing
 * of the request was executed. The other kinds are error codes of the agent.
 */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly kind:
    | 'gone'
    | 'misbehaved'
    | 'invalid_cwd'
    | 'not_found'
    | 'conflict'
    | 'language_unavailable'
    | 'kernel_failed'
    | 'process_limit'
    | 'timeout'
    | 'busy'
    | 'port_closed'
    | 'unusable'
    | 'pausing'
    | 'incompatible'
    | 'internal';

  constructor(kind: AgentError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/**
 * A failed launch. `unsupported`: the host cannot enforce the request; `no_capacity`: try again later; `failed`: the
 * launch was undone and left nothing behind; `incompatible`: the host, or the agents that it launches, speak a version
 * of the protocol that this server does not, and nothing was done.
 */
export class LaunchError extends Error {
  override readonly name = 'LaunchError';
  readonly kind: 'unsupported' | 'no_capacity' | 'template_not_found' | 'failed' | 'unreachable' | 'incompatible';

  constructor(kind: LaunchError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/**
 * A version was not made or removed. `refused`: the changes cannot become a version, and the message says why; `gone`:
 * there is no such instance; `in_use`: an instance or another version needs the version.
 */
export class CaptureError extends Error {
  override readonly name = 'CaptureError';
  readonly kind: 'refused' | 'gone' | 'in_use';

  constructor(kind: CaptureError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
