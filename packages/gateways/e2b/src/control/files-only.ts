/** Returns what `/v1` is sent for a pause or a wake whose flag says whether the memory is kept. */
export function filesOnly(keepsMemory: boolean | null | undefined): { memory?: 'drop' } {
  return keepsMemory === false ? { memory: 'drop' } : {};
}
