/** Constants kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/** Upgrade protocol of a connection that carries runs. */
export const RUNS_UPGRADE = 'cloche-runs';

/**
 * Header of an upgrade request and of its response. In the request: the server sends empty lines during runs. In the
 * response: the agent ends its run if the server falls silent. The agent's own warm-up sends none and runs without both.
 */
export const RUNS_KEEP_ALIVE = 'cloche-keep-alive: runs';

/** How often a server sends an empty line on a connection with a run. */
export const RUN_KEEP_ALIVE_MS = 3_000;
/** Time without data from the server after which an agent has ended its run. Shorter than the lease of a server. */
export const RUN_SILENCE_MS = 15_000;

const ACCEPTED = `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n`;
/** The agent's complete response to an upgrade request. */
export const RUNS_ACCEPTED = `${ACCEPTED}\r\n`;
/** The complete response of an agent that ends the runs of a silent server. */
export const RUNS_ACCEPTED_KEPT = `${ACCEPTED}${RUNS_KEEP_ALIVE}\r\n\r\n`;
