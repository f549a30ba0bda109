const SHARE = 0.05;
const MAX_BYTES = 2 * 1024 ** 3;

/** Returns the bytes of a volume that stay free for existing data by default: 5 %, at most 2 GiB. */
export function defaultDiskReserveBytes(volumeBytes: number): number {
  return Math.min(MAX_BYTES, Math.floor(volumeBytes * SHARE));
}
