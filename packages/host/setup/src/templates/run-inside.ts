import { CERTIFICATE_BUNDLES, firstPresent, staticProgram } from '@cloche/layout';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import { isolatedCommand } from './isolated-command.ts';
import type { Recipe } from './recipe.ts';
import { CA_BUNDLE, templateEnvironment } from './template-environment.ts';

/** User id of kernels. */
export const USER_ID = 1000;
/** First of the host ids that files are mapped to during a build. The ranges of sandboxes are above. */
const FIRST_BUILD_ID = 0x0fff_0000;

export interface InsideOptions extends LoggedCommand {
  readonly as: 'root' | 'user';
  /** Folder that serves as root's home folder meanwhile. */
  readonly settings?: string;
  /** Variables for a command with this machine's network and resolver; no network when left out. */
  readonly network?: NodeJS.ProcessEnv;
}

/**
 * Runs a shell command in the root file system of a template, with this machine's certificates.
 *
 * SECURITY: the programs come from package registries. They have no capability on this machine, no user id of it, none
 * of its files, five devices, and no network unless `network` is given (run-inside.runtime.test.ts).
 */
export async function runInside(
  root: string,
  recipe: Recipe,
  command: string,
  { as, settings = '', network, ...options }: InsideOptions,
): Promise<void> {
  const [id, home] = as === 'root' ? [0, '/root'] : [USER_ID, '/home/user'];
  const files = [`${firstPresent(CERTIFICATE_BUNDLES)}>${CA_BUNDLE}`, ...(network ? ['/etc/resolv.conf'] : [])].join(
    ':',
  );
  const shell = ['/bin/sh', '-euc', `cd ${home}; ${command}`];
  const enter = [staticProgram('enter-root'), root, `${id}`, `${FIRST_BUILD_ID}`, files, settings, ...shell];
  const env = { ...network, ...templateEnvironment(recipe), HOME: home };
  await runLogged(...isolatedCommand(enter, ['--ipc', '--uts', ...(network ? [] : ['--net'])]), { ...options, env });
}
