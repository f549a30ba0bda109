/** Length up to which a text is parsed without a check: it cannot produce many values. */
const SHORT_CHARACTERS = 64 * 1024;

const QUOTE = '"';
const BACKSLASH = 0x5c;

/** Text that would produce more values than allowed; values take far more memory than their text. */
export class TooManyValuesError extends Error {
  override readonly name = 'TooManyValuesError';
}

/**
 * Parses JSON from an untrusted source. Megabytes of nothing but brackets would take gigabytes of memory; a long
 * legitimate text consists mostly of strings.
 *
 * @param shortCharacters length up to which a text is parsed without a check.
 * @throws TooManyValuesError before it creates more than about `maxValues`, and SyntaxError.
 */
export function parsePlainJson(text: string, maxValues: number, shortCharacters = SHORT_CHARACTERS): unknown {
  if (text.length > shortCharacters) boundValues(text, maxValues);
  return JSON.parse(text);
}

function boundValues(text: string, maxValues: number): void {
  let values = 0;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf(QUOTE, at);
    const end = quote === -1 ? text.length : quote;
    for (; at < end; at += 1) {
      const code = text.charCodeAt(at);
      // Characters that start or separate values: `[`, `{` and `,`.
      if ((code === 0x5b || code === 0x7b || code === 0x2c) && ++values > maxValues) {
        throw new TooManyValuesError(`more than ${maxValues} values`);
      }
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
