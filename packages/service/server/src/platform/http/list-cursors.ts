import { createHmac, timingSafeEqual } from 'node:crypto';
import { invalidRequest } from '../base/app-error.ts';
import { canonicalJson } from '../base/canonical-json.ts';
import type { Place } from '../db/list-part.ts';

/** Changes with the meaning of places, so that a cursor of an older version is refused instead of misread. */
const VERSION = '1';
const SIGNATURE_BYTES = 16;

/** Everything that a list depends on, as JSON: a cursor is valid for exactly this. */
export type ListScope = Readonly<Record<string, unknown>>;

/**
 * Writes and reads cursors, which name the place in a list after which the next page begins.
 *
 * SECURITY: the signature covers the list, its organization and its filters, so that no client can name a place that it
 * was not given; held by "refuses a cursor of another list, organization or filter" in list-route.test.ts.
 */
export class ListCursors {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  write(scope: ListScope, place: Place): string {
    const body = Buffer.from(JSON.stringify(place)).toString('base64url');
    return `${VERSION}.${body}.${this.#sign(scope, body)}`;
  }

  /** @throws AppError `invalid_request` for a cursor that the service did not write for this list */
  read(scope: ListScope, cursor: string): Place {
    const [version, body = '', signature = ''] = cursor.split('.');
    if (version !== VERSION && /^\d+$/.test(version ?? '')) throw refused('is of another version of the service');
    const [given, expected] = [Buffer.from(signature), Buffer.from(this.#sign(scope, body))];
    const isValid = given.length === expected.length && timingSafeEqual(given, expected);
    if (!isValid || cursor !== `${VERSION}.${body}.${signature}`)
      throw refused('is not one of this list with these parameters');
    // Sound: only `write` signs a body.
    return JSON.parse(Buffer.from(body, 'base64url').toString()) as Place;
  }

  #sign(scope: ListScope, body: string): string {
    const signed = `list-cursor ${VERSION}\n${canonicalJson(scope)}\n${body}`;
    return createHmac('sha256', this.#key).update(signed).digest().subarray(0, SIGNATURE_BYTES).toString('base64url');
  }
}

function refused(why: string): Error {
  return invalidRequest({ path: 'query.cursor', message: `${why}; request the first page again` });
}
