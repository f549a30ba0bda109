/** What a sandbox gets that asks for nothing, where the operator has set nothing: hostd launches such ones ahead. */
export function defaultResources(hostMemoryBytes: number) {
  return {
    CLOCHE_SANDBOX_DEFAULT_CPU: 1,
    CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: Math.min(1024, Math.floor(hostMemoryBytes / 2 ** 20)),
    CLOCHE_SANDBOX_DEFAULT_DISK_MB: 2048,
    CLOCHE_SANDBOX_DEFAULT_PIDS: 512,
  };
}
