import type { IsolationClaims, LaunchSpec } from '@cloche/protocol';
import type { IdRange } from '../base/id-range.ts';
import type { LimitedGroup } from '../cgroups/group-usage.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { ProcessIdentity } from '../linux/process-identity.ts';

/** A container as the launch prepared it; the source of its configuration. */
export interface ContainerSpec {
  key: InstanceKey;
  /** Folder for the configuration, the runtime's log and the id of the first process. */
  bundleDir: string;
  rootDir: string;
  /** The sandbox's own disk, which limits what is written there. */
  diskDir: string;
  idRange: IdRange;
  /** A user namespace that maps the id range. */
  userNamespacePath: string;
  resources: LaunchSpec['resources'];
  command: readonly string[];
  /** The template's variables for processes in the sandbox. */
  environment: Readonly<Record<string, string>>;
  /** Variables of the agent alone. */
  agentSettings: Readonly<Record<string, string>>;
}

/** Standard streams of a container's first process. */
export type ContainerConsole = readonly [stdin: number, stdout: number, stderr: number];

/**
 * Creates and starts containers with one OCI runtime. Each step of a launch in which runtimes differ is a method here.
 * No method ends a container: killing the processes of the cgroup needs no runtime.
 *
 * A runtime that can pause sandboxes adds two methods. `checkpoint(container, imageDir)` freezes the cgroup, writes the
 * state of the processes to `imageDir` and leaves them frozen; the caller then copies or keeps the disk, and thaws or
 * kills. `restore(container, console, imageDir)` takes the place of `create` and `start` for a launch whose source is a
 * snapshot or another sandbox (`LaunchSource` in `@cloche/protocol`); the steps before and after it stay the same. The
 * instance's agent socket, its user namespace and its network namespace belong to the new instance, never to the image.
 */
export interface Runtime {
  /** The isolation that sandboxes of this runtime have. */
  readonly claims: IsolationClaims;
  /** Whether a sandbox has clocks of its own. */
  readonly timeNamespace: boolean;
  /**
   * Generous estimate of the memory of an instance that waits for a sandbox, in bytes. The default pool is sized by it.
   */
  readonly waitingInstanceBytes: number;
  /** The group of a sandbox's processes, below the instance's own, by which hostd measures what they occupy. */
  readonly limitedGroup: LimitedGroup;
  /** Writes the bundle of a container. */
  prepare(container: ContainerSpec): void;
  /**
   * Creates the agent's socket, and the container up to the point where its first process waits to start. Returns the
   * id of that process. After a failure, `remove` removes what was created.
   */
  create(container: ContainerSpec, console: ContainerConsole): Promise<number>;
  /** Applies limits beyond those of the container's configuration. Call after `create`, before `start`. */
  applyLimits(container: ContainerSpec): void;
  /** Starts the first process. */
  start(container: ContainerSpec): Promise<void>;
  /**
   * Stops the container's processes so that all their file writes have reached the host kernel. Kills no process of the
   * host.
   */
  writeBack(container: Pick<ContainerSpec, 'key' | 'bundleDir'>, init: ProcessIdentity): Promise<void>;
  /** Serves the socket of an instance that an earlier hostd launched. */
  takeOver(key: InstanceKey, idRange: IdRange): void;
  /** Removes the runtime's state of a container whose processes are gone. Idempotent. */
  remove(container: Pick<ContainerSpec, 'key' | 'bundleDir'>): Promise<void>;
  /** Stops serving the instances' sockets; the instances keep running. */
  close(): void;
  /** Removes what the runtime shares between containers. Call only while no sandbox runs. */
  removeShared?(): void;
}
