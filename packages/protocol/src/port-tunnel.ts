/** Kept apart from the schemas, so that the agent's bundle need not carry the schema library. */

/**
 * The protocol that a request upgrades to, of server and agent: after the `101` the connection carries the bytes of one
 * connection to a port inside the sandbox, as they are, both ways.
 */
export const PORT_TUNNEL_PROTOCOL = 'cloche-tunnel';

/** Tunnels into one sandbox at a time. */
export const MAX_PORT_TUNNELS = 512;
