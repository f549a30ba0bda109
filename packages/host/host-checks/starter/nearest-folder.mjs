import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Returns the folder, or the nearest one above it that exists.
 *
 * @param {string} folder
 * @returns {string}
 */
export function nearestFolder(folder) {
  return existsSync(folder) ? folder : nearestFolder(dirname(folder));
}
