import { parsePlainJson } from '@cloche/node-support';
import { invalidRequest } from '../../platform/base/app-error.ts';

const FIELD = 'file-attributes';
const MOST_ATTRIBUTES = 64;
/** With the prefix `user.`, Linux permits 255 bytes. */
const NAME = /^[\x21-\x7e]{1,250}$/;
/** Most bytes of names and values. */
const MOST_BYTES = 4096;

/** Checks the attributes that an upload gives a file. @throws AppError `invalid_request` */
export function requireAttributes(headers: Readonly<Record<string, string | undefined>>): void {
  const text = headers[FIELD];
  if (text === undefined) return;
  const entries = entriesOf(text);
  const isValid =
    entries !== undefined &&
    entries.length <= MOST_ATTRIBUTES &&
    entries.every(([name, value]) => NAME.test(name) && typeof value === 'string' && !value.includes('\0'));
  if (!isValid) throw refused(`must be a JSON object of at most ${MOST_ATTRIBUTES} texts with printable names`);
  if (Buffer.byteLength(entries.flat().join('')) > MOST_BYTES) throw refused(`must have at most ${MOST_BYTES} bytes`);
}

function entriesOf(text: string): [string, unknown][] | undefined {
  try {
    const value = parsePlainJson(text, MOST_ATTRIBUTES * 3);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
  } catch {
    return undefined;
  }
}

function refused(message: string) {
  return invalidRequest({ path: `headers.${FIELD}`, message });
}
