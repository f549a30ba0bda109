import { fileURLToPath } from 'node:url';
import { cachePaths, GVISOR_VERSION } from '@cloche/layout';
import { ensureGoProgram } from './build-go-program.ts';

export const GVISOR_MODULE = fileURLToPath(new URL('../../gvisor', import.meta.url));

/** Builds gVisor's runtime like `ensureGoProgram`. */
export function ensureRunsc(cacheDir: string, onBuild: () => void = () => {}): Promise<void> {
  const program = {
    place: cachePaths(cacheDir).runsc,
    module: GVISOR_MODULE,
    package: 'gvisor.dev/gvisor/runsc',
    linkerFlags: `-X gvisor.dev/gvisor/runsc/version.version=${GVISOR_VERSION}`,
  };
  return ensureGoProgram(program, cacheDir, onBuild);
}
