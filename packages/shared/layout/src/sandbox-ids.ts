/** Largest number of sandboxes on a host; each has ids and addresses of its own. */
export const SANDBOX_SLOTS = 16_384;
/** User and group ids of one sandbox. */
export const IDS_PER_SANDBOX = 65_536;
/** First of the host's ids for sandboxes: the ranges of all sandboxes, then one owner id for each. */
export const FIRST_SANDBOX_ID = 0x1000_0000;
export const FIRST_OWNER_ID = FIRST_SANDBOX_ID + SANDBOX_SLOTS * IDS_PER_SANDBOX;
export const LAST_OWNER_ID = FIRST_OWNER_ID + SANDBOX_SLOTS - 1;
