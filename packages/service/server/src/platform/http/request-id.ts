import type { IdSource } from '../base/id-source.ts';

export const REQUEST_ID_HEADER = 'x-request-id';
/** The form of an accepted client id, which is safe unquoted in logs, shells, URLs and headers. */
const KEPT = /^[A-Za-z0-9._-]{1,128}$/;

/** Returns the client's id if its form is accepted, else a new one. */
export function requestIdOf(header: string | string[] | undefined, ids: IdSource): string {
  return typeof header === 'string' && KEPT.test(header) ? header : ids.next('req_');
}
