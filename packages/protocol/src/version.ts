/**
 * Versions of the protocols between two processes. Incremented whenever a message changes its meaning; both ends of a
 * connection must have the same version. Each pair has a version of its own, because a change between the service and
 * hostd must not cut off the agents of running sandboxes.
 */
export const HOSTD_PROTOCOL_VERSION = 4;
export const AGENT_PROTOCOL_VERSION = 2;
export const EGRESS_PROTOCOL_VERSION = 2;
/** Version that kernels report to their agent. `cloche_kernel/kernel.py` has the same number. */
export const KERNEL_PROTOCOL_VERSION = 1;
