/**
 * Memory that hostd grants gVisor beyond the guest's limit: for gVisor's kernel, and for what programs allocate between
 * two checks of the agent's memory guard. When it is full too, the host kills a process of the sandbox.
 */
export const GVISOR_OWN_MEMORY_BYTES = 192 * 1024 * 1024;
