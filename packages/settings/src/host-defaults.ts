/** Defaults that depend on the memory of the host. hostd launches its pool with them, so server and hostd agree. */
export function hostDefaults(hostMemoryBytes: number) {
  return { CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: Math.min(1024, Math.floor(hostMemoryBytes / 2 ** 20)) };
}
