/** Bumped whenever a message changes its meaning; both ends of a connection must agree. */
export const PROTOCOL_VERSION = 2;
