import { Type } from 'typebox';

/** Returns the schema of a time in ISO 8601, UTC, with milliseconds, as written by `Date.prototype.toISOString`. */
export const timestamp = (description: string) =>
  Type.String({ format: 'date-time', description: `${description} ISO 8601, UTC.` });

export const Timestamp = timestamp('When it was created.');
