import { join } from 'node:path';

/** Programs in C of this repository. Their sources are beside them. */
export type StaticProgram = 'enter-root' | 'release-shared' | 'sudo' | 'supervise' | 'try-idmapped-mount';

const FOLDER = join(import.meta.dirname, '../static-programs');

/**
 * Returns the path of a program for a processor, this one by default. It needs no library, so it runs on every root file
 * system. `scripts/static-programs.ts` builds them.
 */
export function staticProgram(name: StaticProgram, arch: string = process.arch): string {
  return join(FOLDER, arch, name);
}
