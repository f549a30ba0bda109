/** In the guest folder: the agent, and what V8 makes of it. */
export const AGENT_PROGRAM = 'agent-program.cjs';
export const PRECOMPILED_AGENT = 'agent-program.bin';
