import { FIRST_OWNER_ID, FIRST_SANDBOX_ID, IDS_PER_SANDBOX } from '@cloche/layout';

/**
 * Host user and group ids that the ids 0 … size-1 of one sandbox map to. No other sandbox and no host user has them.
 */
export interface IdRange {
  base: number;
  size: number;
  /**
   * Id that owns the sandbox's user namespace. Outside the range: no process of the host or of a sandbox ever has this
   * id.
   */
  owner: number;
}

/** Returns the id range of a slot; ranges of different slots do not overlap. */
export function idRangeOfSlot(slot: number): IdRange {
  const base = FIRST_SANDBOX_ID + slot * IDS_PER_SANDBOX;
  return { base, size: IDS_PER_SANDBOX, owner: FIRST_OWNER_ID + slot };
}
