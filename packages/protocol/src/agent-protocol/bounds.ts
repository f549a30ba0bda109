/** Apart from the schemas, which the agent is to load none of: they would cost every idle sandbox its memory and time. */

/** Bytes of a page: the texts of its entries, as JSON writes them. */
export const COMMAND_PAGE_BYTES = 2 * 1024 * 1024;

/** Longer paths are refused before they are read. */
export const MAX_PATH_BYTES = 4096;
