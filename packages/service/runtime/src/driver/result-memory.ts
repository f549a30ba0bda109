/** The memory account of one request's result. */
export interface ResultMemory {
  /**
   * Counts `bytes` more. Returns undefined if there is room for them, else a promise that resolves when there is room
   * and rejects when `signal` aborts or the disk is full.
   */
  hold(bytes: number, signal: AbortSignal): Promise<void> | undefined;
}
