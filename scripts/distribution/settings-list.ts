import { OPERATOR_SETTINGS } from '../../packages/shared/settings/src/index.ts';

const HEAD = '# Every setting of Cloche. Set those that you need in /etc/cloche/cloche.env.\n';
/** Set by name where they are used: the file itself, and the service that the command line talks to. */
const OF_OTHERS = ['CLOCHE_CONFIG_FILE', 'CLOCHE_URL', 'CLOCHE_API_KEY'];

/**
 * Returns the list of all settings that lies beside the programs. The file of settings itself names few, so that it
 * stays the same in each release: dpkg asks an operator who has edited it only when it changes.
 */
export function settingsList(): string {
  const own = OPERATOR_SETTINGS.filter(({ name }) => !OF_OTHERS.includes(name));
  return HEAD + own.map(({ name, doc, default: preset = '' }) => `\n# ${doc}\n#${name}=${preset}\n`).join('');
}
