/** Constants kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/**
 * Upgrade protocol between server and agent: after the `101` the connection carries the unmodified bytes of one
 * connection to a port inside the sandbox, in both directions.
 */
export const PORT_TUNNEL_PROTOCOL = 'cloche-tunnel';

/** Tunnels into one sandbox at a time. */
export const MAX_PORT_TUNNELS = 512;
