import { join } from 'node:path';
import { type AgentConfig, LOADER } from '../config.ts';

type GuestConfig = Pick<AgentConfig, 'guestDir' | 'ownLibraries'>;

/**
 * Returns the command line of a program in the guest folder, without its arguments. The loader is named explicitly,
 * because the one that the program names, and a variable with the folder of libraries, would count for the root file
 * system too.
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
