/**
 * Constants kept apart from the schemas, which the agent does not load: they would cost every idle sandbox memory and
 * time.
 */

/** Bytes of a page: the JSON-encoded texts of its entries. */
export const COMMAND_PAGE_BYTES = 2 * 1024 * 1024;

/** Most bytes of one entry of a command's log. */
export const MAX_LOG_ENTRY_BYTES = 64 * 1024;

/** Longest path; a longer one is refused before it is read. */
export const MAX_PATH_BYTES = 4096;

/** Seconds of the agent's own, not counting those in which it is frozen, after which its gate opens by itself. */
export const GATE_TICKS = 5;

/** Status of an answer to a `HEAD` that the agent's gate refuses; the status of other refusals is 409. */
export const HEAD_PAUSING = 423;
