/** Names of the agent's program and its V8 code cache in the guest folder. */
export const AGENT_PROGRAM = 'agent-program.cjs';
export const PRECOMPILED_AGENT = 'agent-program.bin';
