import { type TSchemaOptions, Type } from 'typebox';

/** No NUL character: files, environments and databases cannot hold one. */
export const NO_NUL = '^[^\\u0000]*$';

/** A text without NUL. Only the code of a run and standard input may hold one. */
export const Text = (options: TSchemaOptions & { minLength?: number; maxLength?: number; default?: string } = {}) =>
  Type.String({ pattern: NO_NUL, ...options });

/**
 * Constraints that the OpenAPI document states while the service checks them by its own code, because its messages or its
 * error codes say more than a schema's. `http/schema-bounds.test.ts` of the server holds that it does check them.
 */
export const documented = (keywords: Readonly<Record<string, unknown>>) => ({ documented: keywords });
