import type { LaunchSpec } from '@cloche/protocol';
import type { IdRange } from '../base/id-range.ts';
import type { InstanceKey } from '../instance/instance-key.ts';

/** A container as the launch has set it up: what its configuration is made from. */
export interface ContainerSpec {
  key: InstanceKey;
  /** Gets the configuration; the runtime writes its log and the id of the first process there. */
  bundleDir: string;
  rootDir: string;
  /** The sandbox's own disk, which bounds what is written there for it. */
  diskDir: string;
  idRange: IdRange;
  /** A user namespace that maps the id range. */
  userNamespacePath: string;
  resources: LaunchSpec['resources'];
  command: readonly string[];
  /** The template's variables, for what runs in the sandbox. */
  environment: Readonly<Record<string, string>>;
}

/** Standard streams of a container's first process. */
export type ContainerConsole = readonly [stdin: number, stdout: number, stderr: number];

/**
 * Makes and starts containers by one OCI runtime. Each step of a launch in which runtimes differ is a method here, and so
 * a checkpoint and a restore would be. It ends no container: killing what is in the cgroup needs no runtime.
 */
export interface Runtime {
  /** Whether processes of the host can enter a sandbox's namespaces, as a kernel does that is forked into it. */
  readonly canBeEntered: boolean;
  /** Whether a sandbox has clocks of its own. */
  readonly timeNamespace: boolean;
  /** Writes the bundle of a container. */
  prepare(container: ContainerSpec): void;
  /**
   * Makes the socket where the agent is reached and the container up to the point where its first process waits to start.
   * Returns the id of that process. What it made when it fails is removed by `remove`.
   */
  create(container: ContainerSpec, console: ContainerConsole): Promise<number>;
  /** Bounds what the container may use, beyond what its configuration says. After `create`, before `start`. */
  bound(container: ContainerSpec): void;
  /** Has the first process start. */
  start(container: ContainerSpec): Promise<void>;
  /** Serves again at the socket of an instance that an earlier hostd launched. */
  takeOver(key: InstanceKey, idRange: IdRange): void;
  /** Removes what the runtime keeps of a container whose processes are gone. Idempotent. */
  remove(container: Pick<ContainerSpec, 'key' | 'bundleDir'>): Promise<void>;
  /** Stops serving at the sockets of instances, which live on. */
  close(): void;
}
