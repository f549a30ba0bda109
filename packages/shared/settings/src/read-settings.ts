import type { TSchema } from 'typebox';
import { Errors } from 'typebox/value';
import type { Setting, SettingReader } from './setting.ts';
import { SETTINGS, type SettingName, type SettingValues } from './settings.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const TABLE: ReadonlyMap<string, Setting> = new Map(Object.entries(SETTINGS));

export interface ReadSettings<Reader extends SettingReader, Defaults> {
  /** Values by name; valid if there are no problems. */
  readonly values: SettingValues<Reader> & Readonly<Defaults>;
  /** A sentence for each setting that is missing or invalid. The sentences never repeat a value. */
  readonly problems: readonly string[];
}

/**
 * Reads from `env` the settings that a process reads. An empty variable counts as not set.
 *
 * @param defaults defaults that depend on the host
 */
export function readSettings<Reader extends SettingReader, Defaults extends Partial<Record<SettingName, unknown>>>(
  reader: Reader,
  env: Environment,
  defaults: Defaults,
): ReadSettings<Reader, Defaults> {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, setting] of TABLE) {
    if (!setting.readBy.includes(reader)) continue;
    const text = env[name];
    const value = text ? parse(setting.value, text) : ((defaults as Record<string, unknown>)[name] ?? setting.default);
    values[name] = value;
    if (value === undefined && setting.required) problems.push(`${name} must be set`);
    if (value !== undefined && Errors(setting.value, value).length > 0) {
      problems.push(`${name} must be ${setting.value.means}`);
    }
  }
  // Valid without problems, because each value was checked by its schema.
  return { values: values as ReadSettings<Reader, Defaults>['values'], problems };
}

/** Returns what is wrong with `text` as the value of a setting, or `undefined`. */
export function problemWith(name: SettingName, text: string): string | undefined {
  const { value } = SETTINGS[name];
  return Errors(value, parse(value, text)).length > 0 ? `${name} must be ${value.means}` : undefined;
}

/** Returns the settings that operators can set, in the order of the table. */
export function operatorSettings(): [SettingName, Setting][] {
  return (Object.entries(SETTINGS) as [SettingName, Setting][]).filter(([, { isInternal }]) => !isInternal);
}

/** Returns whether a process of an installation reads a variable of this name. */
export function isSetting(name: string): name is SettingName {
  return TABLE.has(name);
}

function parse(schema: TSchema & { type?: unknown }, text: string): unknown {
  const isNumeric = schema.type === 'integer' || schema.type === 'number';
  return isNumeric && text.trim() !== '' ? Number(text) : text;
}
