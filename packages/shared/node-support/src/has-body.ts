import type { IncomingHttpHeaders } from 'node:http';

/** Returns whether the headers of a request announce a body of at least one byte, or one of unknown length. */
export function hasBody(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
