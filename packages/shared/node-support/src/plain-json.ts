/** Levels of arrays and objects that a text may have. `JSON.stringify` fails from some 3,000, `JSON.parse` never. */
export const MAX_JSON_DEPTH = 256;

const QUOTE = '"';
const BACKSLASH = 0x5c;

/** Text that would produce more values than allowed; values take far more memory than their text. */
export class TooManyValuesError extends Error {
  override readonly name = 'TooManyValuesError';
}

/** Text with more levels than allowed: what serializes the value again, or walks it, could exceed the stack. */
export class TooDeepError extends Error {
  override readonly name = 'TooDeepError';
}

/**
 * Parses JSON from an untrusted source. Megabytes of nothing but brackets would take gigabytes of memory; a long
 * legitimate text consists mostly of strings.
 *
 * @throws TooManyValuesError or TooDeepError before it creates more than `maxValues` or `maxDepth` levels, and
 * SyntaxError.
 */
export function parsePlainJson(text: string, maxValues: number, maxDepth = MAX_JSON_DEPTH): unknown {
  // A shorter text cannot have as many: a value takes a character at least, and a level two.
  if (text.length > Math.min(maxValues, 2 * maxDepth)) checkBounds(text, maxValues, maxDepth);
  return JSON.parse(text);
}

function checkBounds(text: string, maxValues: number, maxDepth: number): void {
  let values = 0;
  let depth = 0;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf(QUOTE, at);
    const end = quote === -1 ? text.length : quote;
    for (; at < end; at += 1) {
      const code = text.charCodeAt(at);
      // Characters that start or separate values: `[`, `{` and `,`.
      const opens = code === 0x5b || code === 0x7b;
      if (opens || code === 0x2c) {
        if (++values > maxValues) throw new TooManyValuesError(`the JSON has more than ${maxValues} values`);
        if (opens && ++depth > maxDepth) throw new TooDeepError(`the JSON has more than ${maxDepth} levels`);
      } else if (code === 0x5d || code === 0x7d) depth -= 1;
    }
    if (quote === -1) return;
    at = endOfString(text, quote + 1);
  }
}

/** Returns the index after the closing quote, or the end of a text without one. */
function endOfString(text: string, start: number): number {
  for (let from = start; ; ) {
    const quote = text.indexOf(QUOTE, from);
    if (quote === -1) return text.length;
    let backslashes = 0;
    while (quote - backslashes > start && text.charCodeAt(quote - backslashes - 1) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}
