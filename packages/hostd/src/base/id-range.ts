import { FIRST_OWNER_ID, FIRST_SANDBOX_ID, IDS_PER_SANDBOX } from '@cloche/protocol';

/** User and group ids of the host that stand for the ids 0 … size-1 of one sandbox, and for nobody else. */
export interface IdRange {
  base: number;
  size: number;
  /** Owns the sandbox's user namespace. Outside of the range: no process of the host or of a sandbox ever has this id. */
  owner: number;
}

/** The range of a slot; ranges of different slots never touch. */
export function idRangeOfSlot(slot: number): IdRange {
  const base = FIRST_SANDBOX_ID + slot * IDS_PER_SANDBOX;
  return { base, size: IDS_PER_SANDBOX, owner: FIRST_OWNER_ID + slot };
}
