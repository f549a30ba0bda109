import { type TSchemaOptions, Type } from 'typebox';

/** Pattern of strings without NUL, because paths, environments and databases cannot contain NUL. */
export const NO_NUL = '^[^\\u0000]*$';

/** A string without NUL. Only the code of a run and standard input may contain NUL. */
export const Text = (options: TSchemaOptions & { minLength?: number; maxLength?: number; default?: string } = {}) =>
  Type.String({ pattern: NO_NUL, ...options });

/**
 * Adds constraints that appear in the OpenAPI document but that the service checks in code, because its messages or
 * error codes are more specific than a schema's. `http/schema-bounds.test.ts` of the server verifies that the service
 * checks them.
 */
export const documented = (keywords: Readonly<Record<string, unknown>>) => ({ documented: keywords });
