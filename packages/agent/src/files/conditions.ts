/** The conditional headers of HTTP (RFC 9110, 13) and single ranges of bytes (14). */
import type { IncomingHttpHeaders } from 'node:http';

/** The first and last byte to send, both inclusive; `whole` without a range; `unsatisfiable` past the end. */
export type ByteRange = { readonly first: number; readonly last: number } | 'whole' | 'unsatisfiable';

/** Whether the file that has `etag` (none: there is no file) may be changed or read by this request. */
export function preconditionHolds(headers: IncomingHttpHeaders, etag: string | undefined): boolean {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  if (ifMatch !== undefined && !matches(ifMatch, etag)) return false;
  return ifNoneMatch === undefined || !matches(ifNoneMatch, etag);
}

/** Whether one of the tags in `header` is `etag`. A weak tag never is: ours are strong. */
export function matches(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false;
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag);
}

/** What a read answers with that names its conditions: 412, 304 or the file. */
export function readCondition(headers: IncomingHttpHeaders, etag: string | undefined): 'failed' | 'unchanged' | 'send' {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  if (ifMatch !== undefined && !matches(ifMatch, etag)) return 'failed';
  // RFC 9110, 13.1.2: reading compares weakly, as proxies may have weakened the tag.
  const isKnown = ifNoneMatch !== undefined && matches(ifNoneMatch.replaceAll('W/', ''), etag);
  return isKnown ? 'unchanged' : 'send';
}

/** Of several ranges, and of a header that is none, the whole is sent: both are allowed. */
export function rangeOf({ range, 'if-range': ifRange }: IncomingHttpHeaders, etag: string, size: number): ByteRange {
  if (range === undefined || (ifRange !== undefined && String(ifRange).trim() !== etag)) return 'whole';
  const [, start = '', end = ''] = /^\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(range) ?? [];
  if (start === '' && end === '') return 'whole';
  if (start === '') {
    const suffix = Number(end);
    return suffix === 0 || size === 0 ? 'unsatisfiable' : { first: Math.max(0, size - suffix), last: size - 1 };
  }
  const first = Number(start);
  if (end !== '' && Number(end) < first) return 'whole';
  if (first >= size) return 'unsatisfiable';
  return { first, last: end === '' ? size - 1 : Math.min(Number(end), size - 1) };
}
