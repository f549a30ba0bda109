import type { InstanceKey } from '../instance/instance-key.ts';
import type { PoolKind } from './pool-kind.ts';

/** Makes and removes the instances of a pool. */
export interface PoolMaker {
  /** Makes an instance and resolves when a sandbox can claim it. Leaves nothing behind when it rejects. */
  make(key: InstanceKey, kind: PoolKind, signal: AbortSignal): Promise<void>;
  /**
   * Resolves when an instance is warm: its first kernel has loaded the warm imports of its version and waits, or no
   * kernel is forked ahead. Bounded in time; never rejects.
   */
  warmed(key: InstanceKey, kind: PoolKind): Promise<void>;
  /** Removes an instance. Idempotent. */
  remove(key: InstanceKey): Promise<void>;
  /** Returns whether a finished instance can still be claimed: it lives, and equals one that would be made now. */
  isFresh(key: InstanceKey): boolean;
  /** Returns the processor time, in milliseconds, that an instance and what launches it have used so far. */
  processorMs(key: InstanceKey): number;
  hasMemoryToSpare(): boolean;
  /** Returns how many places of the pool an instance of that version takes: more than one if it holds more memory. */
  placesOf(templateVersionId: string): number;
  /** Measures what waiting instances hold. Call it now and then: what they hold grows after they are made. */
  measure(): void;
}
