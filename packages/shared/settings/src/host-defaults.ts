/**
 * Returns defaults that depend on the host's memory. Used by server and hostd, so that hostd's pool has the server's
 * sizes.
 */
export function hostDefaults(hostMemoryBytes: number) {
  return { CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: Math.min(1024, Math.floor(hostMemoryBytes / 2 ** 20)) };
}
