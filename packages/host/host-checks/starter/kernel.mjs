/** @type {readonly [number, number]} first Linux with overlays over idmapped layers */
export const OLDEST_KERNEL = [5, 19];

/**
 * Returns whether a release of Linux is new enough.
 *
 * @param {string} release such as `6.1.0-13-amd64`
 */
export function isNewKernel(release) {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10));
  const [oldestMajor, oldestMinor] = OLDEST_KERNEL;
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}
