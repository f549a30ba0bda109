import { join } from 'node:path';
import { type AgentConfig, LOADER } from '../config.ts';

/**
 * Returns the command line of Node in the guest folder, without its arguments. Starts it with the loader of the guest
 * folder and names the folder of libraries as an argument. The program's own loader would be that of the root file
 * system, and an environment variable would also affect programs of the root file system.
 */
export function nodeCommand({
  guestDir,
  ownLibraries,
}: Pick<AgentConfig, 'guestDir' | 'ownLibraries'>): [string, ...string[]] {
  const node = join(guestDir, 'bin/node');
  const libraries = join(guestDir, 'lib');
  return ownLibraries ? [join(libraries, LOADER), '--library-path', libraries, node] : [node];
}
