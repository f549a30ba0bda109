import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The one place that has the version: packages, programs and documents take it from there. */
const MANIFEST = join(import.meta.dirname, '../../package.json');

/** Returns the version of the release, such as `0.2.0`. */
export function releaseVersion(): string {
  return JSON.parse(readFileSync(MANIFEST, 'utf8')).version;
}

/**
 * Returns the version from which a release may break what it promised before: `0.3` for `0.2.5`, and `2` for `1.2.3`.
 */
export function nextBreaking(version: string): string {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 0 ? `${major + 1}` : `0.${minor + 1}`;
}
