/** User and group ids of the host that stand for the ids 0 … size-1 of one sandbox, and for nobody else. */
export interface IdRange {
  base: number;
  size: number;
  /** Owns the sandbox's user namespace. Outside of the range: no process of the host or of a sandbox ever has this id. */
  owner: number;
}

const FIRST_BASE = 0x1000_0000;
const RANGE_SIZE = 65_536;
/** Behind the last range. */
const FIRST_OWNER = 0x5000_0000;

/** The range of a slot; ranges of different slots never touch. */
export function idRangeOfSlot(slot: number): IdRange {
  return { base: FIRST_BASE + slot * RANGE_SIZE, size: RANGE_SIZE, owner: FIRST_OWNER + slot };
}
