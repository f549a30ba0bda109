import type { InstanceUse, ParkedDisk } from '@cloche/protocol';

export type { ParkedDisk } from '@cloche/protocol';

/** Names one incarnation of a sandbox. */
interface InstanceName {
  readonly sandboxId: string;
  readonly generation: number;
}

/** An instance that has ended, and whose disk is kept. */
export interface Parked {
  readonly disk: ParkedDisk;
  /** Resources that the instance had used at its end; undefined if it had ended before. */
  readonly use?: InstanceUse | undefined;
}

/**
 * Keeps the disks of instances beyond their ends. `Instances.launch` with the source `parked` gives a kept disk to a
 * later generation of the sandbox, and throws `ParkingError` if it cannot; the disk then stays as it is.
 */
export interface Parking {
  /**
   * Resolves when all that an instance, running or frozen, has written outlives it, and survives a loss of power.
   * Idempotent: repeated, it adds what was written since. Throws `ParkingError`, and `AgentError` `gone` if the instance
   * is not alive.
   */
  keep(instance: InstanceName, signal: AbortSignal): Promise<ParkedDisk>;
  /** Stops an instance and keeps its disk. Idempotent: an instance that was parked is success. Throws as `keep`. */
  park(instance: InstanceName, signal: AbortSignal): Promise<Parked>;
  /** Returns all kept disks. Throws `LaunchError` if a place does not answer. */
  parked(signal: AbortSignal): Promise<readonly ParkedDisk[]>;
  /** Removes a kept disk, except from an instance that uses it. Idempotent. Throws `LaunchError`. */
  removeParked(instance: InstanceName, signal: AbortSignal): Promise<void>;
}

/**
 * A disk was not kept or not given to a launch. `not_found`: the disk is not kept; `in_use`: another instance of the
 * sandbox has it; `broken`: its file system was damaged, and could not be mended; `unsupported`: the place, or the
 * release that launched the instance, cannot keep disks.
 */
export class ParkingError extends Error {
  override readonly name = 'ParkingError';
  readonly kind: 'not_found' | 'in_use' | 'broken' | 'unsupported';

  constructor(kind: ParkingError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
