/** Definition of a setting, and schemas of values. */
import { type TSchema, Type } from 'typebox';

/** Processes that read settings. */
export type SettingReader = 'setup' | 'hostd' | 'egress' | 'server' | 'cli';

/** Schema of the value. `means` completes "CLOCHE_… must be". */
export type ValueSchema = TSchema & { readonly means: string; readonly unit?: Unit };
export type Unit = 'ms' | 'MiB';

export interface Setting {
  readonly value: ValueSchema;
  /** Value of a setting that is not set. */
  readonly default?: string | number;
  /** Describes in Markdown the default of a setting whose default depends on the host or on other settings. */
  readonly defaultText?: string;
  /** Fails the start of a process that reads the setting and does not get it. */
  readonly required?: true;
  readonly readBy: readonly SettingReader[];
  /** Setup computes the value for each process; the operator's environment does not reach it directly. */
  readonly isResolvedBySetup?: true;
  /** Passed from setup to a process. Operators cannot set it. */
  readonly isInternal?: true;
  /** Shown redacted. */
  readonly secret?: true;
  /** One line for `cloche config` and docs/operating/settings.md. */
  readonly summary: string;
  /** Further sentences for docs/operating/settings.md. */
  readonly more?: string;
}

export function integer(minimum: number, maximum: number) {
  return described(Type.Integer({ minimum, maximum }), { means: `a whole number from ${minimum} to ${maximum}` });
}

export function milliseconds(minimum: number, maximum: number) {
  const means = `a whole number of milliseconds from ${minimum} to ${maximum}`;
  return described(Type.Integer({ minimum, maximum }), { means, unit: 'ms' });
}

export function mebibytes(minimum: number, maximum: number) {
  const means = `a whole number of mebibytes from ${minimum} to ${maximum}`;
  return described(Type.Integer({ minimum, maximum }), { means, unit: 'MiB' });
}

export const cores = () =>
  described(Type.Number({ minimum: 0.1, maximum: 256 }), { means: 'a number of cores from 0.1 to 256' });

export const folder = () => text('^/', 'an absolute path');

/** Returns the schema of a text that matches `pattern`. */
export function text(pattern: string, means: string) {
  return described(Type.String({ pattern }), { means });
}

export function oneOf<const Values extends readonly string[]>(...values: Values) {
  const means = values.length === 1 ? `${values[0]}` : `one of ${values.join(', ')}`;
  return described(Type.Unsafe<Values[number]>({ type: 'string', enum: [...values] }), { means });
}

function described<S extends TSchema>(schema: S, meaning: { means: string; unit?: Unit }) {
  return { ...schema, ...meaning };
}
