/** Constants kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/** Upgrade protocol of a connection that carries runs. */
export const RUNS_UPGRADE = 'cloche-runs';

/** The agent's complete response to a request to upgrade. */
export const RUNS_ACCEPTED = `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
