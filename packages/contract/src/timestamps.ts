import { Type } from 'typebox';

/** ISO 8601 in UTC with milliseconds, as `Date.prototype.toISOString` writes it. */
export const Timestamp = Type.String({ format: 'date-time', description: 'ISO 8601, UTC.' });
