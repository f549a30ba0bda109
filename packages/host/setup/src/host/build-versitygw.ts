import { fileURLToPath } from 'node:url';
import { cachePaths } from '@cloche/layout';
import { ensureGoProgram } from './build-go-program.ts';

export const VERSITYGW_MODULE = fileURLToPath(new URL('../../versitygw', import.meta.url));

/** Builds the S3 server for tests like `ensureGoProgram`. */
export function ensureVersitygw(cacheDir: string, onBuild: () => void = () => {}): Promise<void> {
  const program = {
    place: cachePaths(cacheDir).versitygw,
    module: VERSITYGW_MODULE,
    package: 'github.com/versity/versitygw/cmd/versitygw',
  };
  return ensureGoProgram(program, cacheDir, onBuild);
}
