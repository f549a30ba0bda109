import { join } from 'node:path';
import { type AgentConfig, LOADER } from '../config.ts';

type GuestConfig = Pick<AgentConfig, 'guestDir' | 'ownLibraries'>;

/**
 * Returns the command line of a program in the guest folder, without its arguments. Starts the program with the loader
 * of the guest folder and names the folder of libraries as an argument. The program's own loader would be that of the
 * root file system, and an environment variable would also affect programs of the root file system.
 */
export function guestProgram(name: 'node' | 'perl', { guestDir, ownLibraries }: GuestConfig): [string, ...string[]] {
  const program = join(guestDir, 'bin', name);
  const libraries = join(guestDir, 'lib');
  return ownLibraries ? [join(libraries, LOADER), '--library-path', libraries, program] : [program];
}

/** Returns the command line of Perl, without its arguments. */
export function perlCommand(config: GuestConfig): [string, ...string[]] {
  if (!config.ownLibraries) return ['/usr/bin/perl'];
  return [...guestProgram('perl', config), `-I${join(config.guestDir, 'perl')}`];
}
