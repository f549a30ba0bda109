import { fileURLToPath } from 'node:url';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import { contained } from './contained-command.ts';
import type { Recipe } from './recipe.ts';
import { CA_BUNDLE, templateEnvironment } from './template-environment.ts';

const ENTER_ROOT = fileURLToPath(new URL('enter-root.pl', import.meta.url));

/** The account that kernels run as. */
export const USER_ID = 1000;
/** Host ids that stand for those of a file system while it is built. The ranges of sandboxes begin above. */
const FIRST_BUILD_ID = 0x0fff_0000;

export interface InsideOptions extends LoggedCommand {
  readonly as: 'root' | 'user';
  /** A folder that is the home folder of root meanwhile. */
  readonly settings?: string;
  /** With this machine's network, resolver and these variables; without any network where it is left out. */
  readonly network?: NodeJS.ProcessEnv;
}

/**
 * Runs a shell command in the root file system of a template, with the certificates of this machine.
 *
 * SECURITY: what it runs came from package registries. It has no capability on this machine, no user id of it, none of its
 * files, five devices, and no network unless it asks for one (run-inside.runtime.test.ts).
 */
export async function runInside(
  root: string,
  recipe: Recipe,
  command: string,
  { as, settings = '', network, ...options }: InsideOptions,
): Promise<void> {
  const [id, home] = as === 'root' ? [0, '/root'] : [USER_ID, '/home/user'];
  const files = [CA_BUNDLE, ...(network ? ['/etc/resolv.conf'] : [])].join(':');
  const shell = ['/bin/sh', '-euc', `cd ${home}; ${command}`];
  const enter = ['perl', ENTER_ROOT, root, `${id}`, `${FIRST_BUILD_ID}`, files, settings, ...shell];
  const env = { ...network, ...templateEnvironment(recipe), HOME: home };
  await runLogged(...contained(enter, ['--ipc', '--uts', ...(network ? [] : ['--net'])]), { ...options, env });
}
