import { closeSync, openSync, readSync } from 'node:fs';

/**
 * Returns `2 * bytes` unpredictable hexadecimal digits. Reads `/dev/urandom`, because loading `node:crypto` costs
 * each idle sandbox 1.7 MB.
 */
export function randomHex(bytes: number): string {
  const random = Buffer.alloc(bytes);
  const device = openSync('/dev/urandom', 'r');
  try {
    if (readSync(device, random) !== bytes) throw new Error('/dev/urandom returned too few bytes');
  } finally {
    closeSync(device);
  }
  return random.toString('hex');
}
