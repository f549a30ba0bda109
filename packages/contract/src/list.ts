import { type TSchema, Type } from 'typebox';

/**
 * Returns the schema of a list response. `data` has the whole visible collection; `hasMore` is reserved and always
 * false.
 */
export const listOf = <T extends TSchema>(item: T) =>
  Type.Object({ data: Type.Array(item), hasMore: Type.Boolean({ description: 'Reserved: always false.' }) });

/** Returns the schema of the query parameter that requests what follows a sequence number. */
export const afterSeq = (what: string) =>
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    default: 0,
    description: `Only ${what} with a larger sequence number.`,
  });

/** Returns the schema of a string that must be one of `values`. */
export const oneOf = <const T extends readonly string[]>(values: T, description?: string) =>
  Type.Unsafe<T[number]>({ type: 'string', enum: [...values], ...(description === undefined ? {} : { description }) });
