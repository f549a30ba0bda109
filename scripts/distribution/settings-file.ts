import { OPERATOR_SETTINGS } from '../../packages/settings/src/index.ts';
import { UNIT_PATHS } from '../../packages/setup/src/installation/unit-environments.ts';

const HEAD = [
  '# Settings of Cloche. `cloche config` shows those in force.',
  '# After a change: systemctl restart cloche-prepare cloche.target',
  '# Without systemd, run `cloche start` again.',
  '',
].join('\n');
/** Set by name where they are used: the file itself, and the service that the command line talks to. */
const OF_OTHERS = ['CLOCHE_CONFIG_FILE', 'CLOCHE_URL', 'CLOCHE_API_KEY'];
/** Where the units have their sockets, so that `cloche admin` finds them. */
const GIVEN: Readonly<Record<string, string>> = { CLOCHE_RUN_DIR: UNIT_PATHS.runDir };

/** Returns `/etc/cloche/cloche.env` as a package installs it: every setting, as a comment. */
export function settingsFile(): string {
  const entries = OPERATOR_SETTINGS.filter(({ name }) => !OF_OTHERS.includes(name)).map((setting) => {
    const { name, doc, default: preset = '' } = setting;
    const given = GIVEN[name];
    return `\n# ${doc}\n${given === undefined ? `#${name}=${preset}` : `${name}=${given}`}\n`;
  });
  return HEAD + entries.join('');
}
