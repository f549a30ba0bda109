import { Type } from 'typebox';

/** ISO 8601 in UTC with milliseconds, as `Date.prototype.toISOString` writes it. */
export const timestamp = (description: string) =>
  Type.String({ format: 'date-time', description: `${description} ISO 8601, UTC.` });

export const Timestamp = timestamp('When it was created.');
