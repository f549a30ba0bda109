/**
 * Versions of the protocols between two processes. Each pair of processes has a version of its own, because a change
 * between server and hostd must not cut off the agents of running sandboxes. docs/design/several-servers.md, Versions
 * and upgrades, says how to increment one.
 *
 * The server speaks the version of hostd and of the agent that is written here, and the one before it (`accepts`). So an
 * upgraded server works with the hostd and with the agents that were started before it. hostd and egress, and an agent
 * and its kernels, always have equal versions: they are started from the same release.
 *
 * | server ↔ hostd | what differs from the version before |
 * |---|---|
 * | 5 | that of the first release |
 *
 * | server ↔ agent | what differs from the version before |
 * |---|---|
 * | 2 | that of the first release |
 */
export const HOSTD_PROTOCOL_VERSION = 5;
export const AGENT_PROTOCOL_VERSION = 2;
export const EGRESS_PROTOCOL_VERSION = 2;
/** Version that kernels report to their agent. `cloche_kernel/kernel.py` has the same number. */
export const KERNEL_PROTOCOL_VERSION = 1;

/** Returns whether a server that speaks version `own` also speaks version `theirs` of the same protocol. */
export function accepts(own: number, theirs: number): boolean {
  return theirs === own || theirs === own - 1;
}
