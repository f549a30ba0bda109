import { invalidRequest } from '../base/app-error.ts';

/** Returns the number of the last event that a reconnecting client has received. @throws AppError `invalid_request` */
export function lastSeen(header: string | undefined): number | undefined {
  if (header === undefined || header === '') return undefined;
  if (/^\d{1,16}$/.test(header) && Number.isSafeInteger(Number(header))) return Number(header);
  throw invalidRequest({ path: 'headers.last-event-id', message: 'must be the id of an event of this stream' });
}
