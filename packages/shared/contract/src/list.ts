import { type TSchema, Type } from 'typebox';
import { LIMITS } from './limits.ts';
import { documented, Text } from './text.ts';

/** Returns the schema of a list that has no pages. `hasMore` is reserved and always false. */
export const wholeListOf = <T extends TSchema>(item: T) =>
  Type.Object({ data: Type.Array(item), hasMore: Type.Boolean({ description: 'Reserved: always false.' }) });

/** Returns the schema of a list response: the whole visible collection, or one page of it. */
export const listOf = <T extends TSchema>(item: T) =>
  Type.Object({
    data: Type.Array(item),
    hasMore: Type.Boolean({ description: 'Whether the list goes on after this page. False without `limit`.' }),
    nextCursor: Type.Optional(Type.String({ description: '`cursor` of the next page. Present if `hasMore` is true.' })),
  });

/** Query parameters of a list that has pages. */
export const PAGE = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.listPage,
      description: 'Maximum number of entries in the page. Without it, the whole list is returned.',
    }),
  ),
  cursor: Type.Optional(
    Text({
      minLength: 1,
      maxLength: LIMITS.cursorLength,
      description: '`nextCursor` of the page before. Send the other parameters unchanged.',
    }),
  ),
};

/** Returns the schema of a query parameter that selects by the beginning of an id with this prefix. */
export const idPrefix = (prefix: string, what: string) =>
  Type.Optional(
    Type.String({
      pattern: `^${prefix}[0-9a-z]{4,${LIMITS.idPrefixLength}}$`,
      description: `Only ${what} whose ids begin with this: \`${prefix}\` and four characters or more.`,
    }),
  );

/** Returns the query parameters that select by the time of creation. */
export const createdBetween = (what: string) => ({
  createdAfter: Type.Optional(queryTime(`Only ${what} created after this time, in ISO 8601.`)),
  createdBefore: Type.Optional(queryTime(`Only ${what} created before this time, in ISO 8601.`)),
});

/** Returns the schema of a time in a query: a day counts from its beginning in UTC. */
export const queryTime = (description: string) =>
  Text({
    minLength: 1,
    maxLength: LIMITS.queryTimeLength,
    description,
    ...documented({ anyOf: [{ format: 'date-time' }, { format: 'date' }] }),
  });

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
