import { MAX_JSON_DEPTH } from '@cloche/node-support';

/** Largest body that is read whole. */
export const BODY_BYTES = 8 * 1024 * 1024;
/** Most values and levels of the JSON of one message. */
export const JSON_BOUNDS = { values: 100_000, depth: MAX_JSON_DEPTH };
/** The JSON bodies of E2B's protocol. */
export const JSON_BODIES = { type: 'application/json', mostValues: JSON_BOUNDS.values };
