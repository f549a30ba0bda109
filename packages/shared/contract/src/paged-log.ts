/** Schemas of the operations that return the numbered entries of a log, in pages or as a stream. */
import { type TSchema, Type } from 'typebox';
import { afterSeq } from './list.ts';

type Entries = 'entries' | 'events';

/** Returns the schema of a page of a log. */
export const logPage = <T extends TSchema>($id: string, entry: T, what: Entries) =>
  Type.Object(
    {
      data: Type.Array(entry),
      nextSeq: Type.Integer({ minimum: 0, description: 'Value of `afterSeq` that requests the next page.' }),
      hasMore: Type.Boolean({ description: `Whether there are more ${what} already.` }),
    },
    { $id },
  );

/** Returns the query of a page with at most `maximum` entries. */
export const logQuery = (what: Entries, maximum: number) =>
  Type.Object(
    {
      afterSeq: Type.Optional(afterSeq(what)),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum, default: 100, description: `Maximum number of ${what} in the page.` }),
      ),
    },
    { additionalProperties: false },
  );

/**
 * Returns the query, response and headers of the operation that streams the new entries of a log.
 *
 * @param last name of the event after the last entry
 */
export const logStream = (what: Entries, last: 'complete' | 'exit') => {
  const entry = what === 'entries' ? 'entry' : 'event';
  return {
    query: Type.Object({ afterSeq: Type.Optional(afterSeq(what)) }, { additionalProperties: false }),
    response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
    eventIds: `Sequence number of the ${entry}. The events \`${last}\` and \`error\` have no id.`,
    headers: {
      'last-event-id': 'Resumes the stream after the event with this id. It takes precedence over `afterSeq`.',
    },
  } as const;
};
