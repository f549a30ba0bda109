import { isUtf8 } from 'node:buffer';
import type { Issue } from '@cloche/contract';
import { MAX_JSON_DEPTH, parsePlainJson, TooDeepError, TooManyValuesError } from '@cloche/node-support';
import { invalidRequest } from '../base/app-error.ts';

/** Fields that may contain NUL: programs and their input. Paths, environments and databases cannot store it. */
const MAY_HOLD_NUL: readonly string[] = ['body.code', 'body.stdin', 'body.data'];

/**
 * Parses a request body; returns undefined for an empty one.
 *
 * @throws AppError `invalid_request` for a body that is not JSON in UTF-8, for too many values, and for unsafe names
 * and strings.
 */
export function readJson(bytes: Buffer, maxValues: number): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw invalidRequest({ path: 'body', message: 'is not valid UTF-8; send JSON in UTF-8' });
  const text = bytes.toString('utf8');
  const value = parse(text, maxValues);
  // Only an escape or this name can introduce unsafe values.
  if (text.includes('\\u') || text.includes('__proto__')) {
    const issue = findUnsafe(value);
    if (issue) throw invalidRequest(issue);
  }
  return value;
}

function parse(text: string, maxValues: number): unknown {
  try {
    return parsePlainJson(text, maxValues);
  } catch (error) {
    if (error instanceof TooManyValuesError) {
      throw invalidRequest({
        path: 'body',
        message: `has more than ${maxValues} values; send fewer values in one request`,
      });
    }
    if (error instanceof TooDeepError) {
      throw invalidRequest({ path: 'body', message: `has more than ${MAX_JSON_DEPTH} levels of arrays and objects` });
    }
    throw invalidRequest({ path: 'body', message: 'is not valid JSON; check quotes, commas and brackets' });
  }
}

/** Walks the value without recursion: the client decides how deeply it is nested. */
function findUnsafe(root: unknown): Issue | undefined {
  const open: { value: unknown; path: string }[] = [{ value: root, path: 'body' }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, path } = next;
    if (typeof value === 'string') {
      const message = unsafeText(value, MAY_HOLD_NUL.includes(path));
      if (message) return { path, message };
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, child] of Object.entries(value)) {
        if (name === '__proto__') return { path, message: 'must not have a field named "__proto__"' };
        const message = unsafeText(name, false);
        if (message) return { path, message: `has a field whose name ${message}` };
        open.push({ value: child, path: `${path}.${name}` });
      }
    }
  }
  return undefined;
}

function unsafeText(text: string, mayHoldNul: boolean): string | undefined {
  if (!mayHoldNul && text.includes('\0')) return 'must not contain the character NUL (U+0000)';
  if (!text.isWellFormed()) return 'must be valid Unicode; it contains half of a surrogate pair';
  return undefined;
}
