/** Kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/** What a connection to the agent becomes to carry runs. */
export const RUNS_UPGRADE = 'cloche-runs';

/** The agent's whole answer to the request for it. */
export const RUNS_ACCEPTED = `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
