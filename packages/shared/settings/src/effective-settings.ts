import { readFileSync, statSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { operatorSettings } from './read-settings.ts';
import type { SettingReader } from './setting.ts';
import { SETTINGS as TABLE } from './settings.ts';

/** A setting that operators can set, with its default as text. */
export interface OperatorSetting {
  readonly name: string;
  readonly doc: string;
  readonly readBy: readonly SettingReader[];
  readonly isResolvedBySetup: boolean;
  readonly default?: string;
  /** Shown redacted. */
  readonly secret?: true;
}

/** Every setting that operators can set, in the order of `cloche config`. */
export const OPERATOR_SETTINGS: readonly OperatorSetting[] = operatorSettings().map(([name, setting]) => ({
  name,
  doc:
    setting.defaultText && setting.defaultText !== 'none'
      ? `${setting.summary}; default: ${setting.defaultText}`
      : setting.summary,
  readBy: setting.readBy,
  isResolvedBySetup: setting.isResolvedBySetup ?? false,
  ...(setting.default !== undefined && { default: String(setting.default) }),
  ...(setting.secret && { secret: true }),
}));

export type EffectiveSetting = OperatorSetting & {
  value: string | undefined;
  source: 'environment' | 'file' | 'default';
};

/** A setting that does not exist or cannot be read. The message says what to do. */
export class SettingsError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SettingsError';
  }
}

/**
 * Returns the settings in force: the environment, then the configuration file, then the defaults.
 *
 * @throws {SettingsError} for a `CLOCHE_*` name that does not exist, and for a file with keys or passwords that every
 * user of the host can read.
 */
export function effectiveSettings(env: NodeJS.ProcessEnv): EffectiveSetting[] {
  const file = readConfigFile(env);
  rejectUnknown(Object.keys(env), 'the environment');
  rejectUnknown(Object.keys(file.values), file.path);
  rejectReadableSecrets(file);
  return OPERATOR_SETTINGS.map((setting) => {
    const fromEnv = env[setting.name];
    if (fromEnv !== undefined) return { ...setting, value: fromEnv, source: 'environment' };
    const fromFile = file.values[setting.name];
    if (fromFile !== undefined) return { ...setting, value: fromFile, source: 'file' };
    return { ...setting, value: setting.default, source: 'default' };
  });
}

/** Returns the settings that have a value and that a process reads unchanged from its environment. */
export function settingsFor(reader: SettingReader, settings: readonly EffectiveSetting[]): Record<string, string> {
  const own = settings.filter((setting) => isGivenTo(reader, setting));
  return Object.fromEntries(own.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])));
}

/**
 * Returns whether a process gets the operator's value. Setup resolves some settings first, such as folders, for the
 * services.
 */
export function isGivenTo(reader: SettingReader, { readBy, isResolvedBySetup }: OperatorSetting): boolean {
  return readBy.includes(reader) && (!isResolvedBySetup || reader === 'setup' || reader === 'cli');
}

/** Returns the value in a form without secrets. */
export function redacted(setting: EffectiveSetting): string | undefined {
  return setting.secret && setting.value !== undefined ? '(redacted)' : setting.value;
}

interface ConfigFile {
  readonly path: string;
  readonly values: NodeJS.Dict<string>;
}

function readConfigFile(env: NodeJS.ProcessEnv): ConfigFile {
  const named = env.CLOCHE_CONFIG_FILE;
  const path = named ?? TABLE.CLOCHE_CONFIG_FILE.default;
  try {
    return { path, values: parseEnv(readFileSync(path, 'utf8')) };
  } catch (error) {
    // The default file may be missing; one that is set explicitly must exist.
    if (named === undefined) return { path, values: {} };
    throw new SettingsError(`CLOCHE_CONFIG_FILE: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function rejectReadableSecrets({ path, values }: ConfigFile): void {
  const secret = OPERATOR_SETTINGS.find((setting) => setting.secret && values[setting.name] !== undefined);
  if (secret === undefined || (statSync(path).mode & 0o007) === 0) return;
  throw new SettingsError(`Every user can read ${path}, which has ${secret.name}; run \`chmod 600 ${path}\`.`);
}

function rejectUnknown(names: readonly string[], where: string): void {
  const known = OPERATOR_SETTINGS.map(({ name }) => name);
  for (const name of names) {
    if (!name.startsWith('CLOCHE_') || known.includes(name)) continue;
    throw new SettingsError(`There is no setting ${name} (in ${where}). Did you mean ${nearest(name, known)}?`);
  }
}

/** Returns the candidate with the smallest edit distance. */
export function nearest(name: string, candidates: readonly string[]): string {
  const [first = ''] = [...candidates].sort((a, b) => distance(name, a) - distance(name, b));
  return first;
}

/** Returns the Levenshtein distance. */
function distance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
}
