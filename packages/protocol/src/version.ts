/** Incremented whenever a message changes its meaning; both ends of a connection must have the same version. */
export const PROTOCOL_VERSION = 2;
