import type { Duplex } from 'node:stream';
import type {
  AgentRunEvent,
  Instance,
  Language,
  LaunchSpec,
  OpenContext,
  StartRun,
  TemplateVersionManifest,
} from '@cloche/protocol';

import type { ResultRoom } from '../base/result-rooms.ts';
import type { AgentCommands } from './agent-commands.ts';
import type { AgentFiles } from './agent-files.ts';

export type { Instance, LaunchSpec } from '@cloche/protocol';
export * from './agent-commands.ts';
export * from './agent-files.ts';

/** What a driver promises to enforce. */
export interface IsolationClaims {
  readonly networkModes: readonly LaunchSpec['network']['mode'][];
  readonly disk: 'bounded' | 'unbounded';
  readonly kernel: 'shared' | 'own';
  /** Who ends what takes too much memory: a kernel, or the agent, whom what is quick enough takes all of it from. */
  readonly memory: 'kernel' | 'watched';
  /** Whether the agent has processor, memory and processes that code cannot take from it. */
  readonly agentShare: 'own' | 'none';
  /** Where a kernel of Python comes from: one that was loaded on the host, or in the sandbox, is forked; or it is started. */
  readonly pythonKernels: 'forked' | 'forked within' | 'started';
  /** Whether runs go on while what launches instances is down. */
  readonly hostRestarts: 'unnoticed' | 'unavailable';
}

export interface Launched {
  readonly instance: Instance;
  /** Its agent has answered: it was launched ahead of demand, and connecting to it takes no time. */
  readonly agentAnswers: boolean;
}

/** Creates and destroys isolated instances. Knows nothing of HTTP, tenants or SQL. */
export interface RuntimeDriver {
  readonly name: string;
  /** What this driver enforces; e2e/security asserts each claim. */
  readonly isolation: IsolationClaims;
  /** Leaves nothing behind if it rejects or `signal` aborts. Idempotent by sandbox and generation. */
  launch(sandboxId: string, generation: number, spec: LaunchSpec, signal: AbortSignal): Promise<Launched>;
  /**
   * Resolves when the agent answers. `onBroken` is told, any number of times, that no connection to it is left: it may
   * have gone, or have been quiet for long. Not after `close`.
   */
  connect(instance: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient>;
  /** Resolves when nothing in it runs any more and it is listed no more. Idempotent: one already gone is success. */
  stop(sandboxId: string, generation: number): Promise<void>;
  /** Everything alive, for the reconciler after a restart. */
  list(): Promise<readonly Instance[]>;
  /** What the host counts besides, in Prometheus' text form. What it says is not to be believed: see `hostMetrics`. */
  metrics?(signal: AbortSignal): Promise<string>;
  /** What instances can be made from. */
  templateVersions(): Promise<readonly TemplateVersionManifest[]>;
  /** Rejects when instances cannot be launched now. */
  check(signal: AbortSignal): Promise<void>;
}

/** What is run in a context. */
export type RunCell = Omit<StartRun, 'contextId'>;

/** Talks to the agent of one instance. What comes back has been checked against the protocol and bounded. */
export interface AgentClient {
  readonly commands: AgentCommands;
  readonly files: AgentFiles;
  setEnvironment(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
  openContext(
    contextId: string,
    request: OpenContext,
    signal: AbortSignal,
  ): Promise<{ cwd: string; language: Language }>;
  /** Idempotent. */
  closeContext(contextId: string, signal: AbortSignal): Promise<void>;
  interrupt(contextId: string, signal: AbortSignal): Promise<void>;
  restart(contextId: string, signal: AbortSignal): Promise<void>;
  /**
   * Ends with `done`. Aborting cancels the run. What is read of it has asked `room` first. Throws `AgentFault` when the
   * agent breaks the protocol or is gone.
   */
  run(contextId: string, request: RunCell, signal: AbortSignal, room?: ResultRoom): AsyncIterable<AgentRunEvent>;
  /**
   * The bytes of a connection to `port` of the sandbox's loopback. Whoever gets it destroys it. `signal` bounds the
   * opening alone. Throws `AgentFault`, `port_closed` where nothing listens.
   */
  openTunnel(port: number, signal: AbortSignal): Promise<Duplex>;
  close(): Promise<void>;
}

/**
 * `gone`: the connection broke; `misbehaved`: it broke the protocol; `busy`: too many runs under way or waiting;
 * `internal`: a fault of its own; the others are its own codes.
 */
export class AgentFault extends Error {
  override readonly name = 'AgentFault';
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
    | 'internal';

  constructor(kind: AgentFault['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** `unsupported`: the host cannot enforce it; `no_capacity`: try again later; `failed`: undone, nothing is left. */
export class LaunchFault extends Error {
  override readonly name = 'LaunchFault';
  readonly kind: 'unsupported' | 'no_capacity' | 'template_not_found' | 'failed' | 'unreachable';

  constructor(kind: LaunchFault['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
