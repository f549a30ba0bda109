const SHARE = 0.05;
const MOST_BYTES = 2 * 1024 ** 3;

/** What stays free of a volume for what is there already, where the operator has set nothing: 5 %, 2 GiB at most. */
export function defaultDiskReserveBytes(volumeBytes: number): number {
  return Math.min(MOST_BYTES, Math.floor(volumeBytes * SHARE));
}
