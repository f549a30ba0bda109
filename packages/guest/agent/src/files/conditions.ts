/** Conditional headers of HTTP (RFC 9110, 13) and single byte ranges (14). */
import type { IncomingHttpHeaders } from 'node:http';

/** The first and last byte to send, inclusive; `whole` if there is no range; `unsatisfiable` for one past the end. */
export type ByteRange = { readonly first: number; readonly last: number } | 'whole' | 'unsatisfiable';

/**
 * Returns whether the conditions of a request allow it to change or read a file. No `etag` means that there is no
 * file.
 */
export function preconditionHolds(headers: IncomingHttpHeaders, etag: string | undefined): boolean {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  if (ifMatch !== undefined && !matches(ifMatch, etag)) return false;
  return ifNoneMatch === undefined || !matches(ifNoneMatch, etag);
}

/** Returns whether `header` lists `etag`. Weak tags never match, because the agent's tags are strong. */
export function matches(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false;
  return header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag);
}

/** Returns how to answer a conditional read: 412 (`failed`), 304 (`unchanged`) or the file (`send`). */
export function readCondition(headers: IncomingHttpHeaders, etag: string | undefined): 'failed' | 'unchanged' | 'send' {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  if (ifMatch !== undefined && !matches(ifMatch, etag)) return 'failed';
  // RFC 9110, 13.1.2: reads compare weakly, because a proxy can have weakened the tag.
  const isKnown = ifNoneMatch !== undefined && matches(ifNoneMatch.replaceAll('W/', ''), etag);
  return isKnown ? 'unchanged' : 'send';
}

/** Returns the range to send. Several ranges or an invalid header give `whole`, which the RFC allows. */
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
