import type { IdSource } from '../id-source.ts';

export const REQUEST_ID_HEADER = 'x-request-id';
/** Printable ASCII, short enough for every log. */
const SANE = /^[\x20-\x7e]{1,128}$/;

/** The client's own where it is sane, else a new one. */
export function requestIdOf(header: string | string[] | undefined, ids: IdSource): string {
  return typeof header === 'string' && SANE.test(header) ? header : ids.next('req_');
}
