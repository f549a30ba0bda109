/** A shorter text is parsed as it is: it cannot become much. */
const SHORT_CHARACTERS = 64 * 1024;

const QUOTE = '"';
const BACKSLASH = 0x5c;

/** Text that would become more values than it may, which take far more memory than the text. */
export class TooManyValues extends Error {
  override readonly name = 'TooManyValues';
}

/**
 * Reads JSON of somebody who is not trusted: text of megabytes that is nothing but brackets would take gigabytes, while
 * what is long and honest is so by its strings.
 *
 * @param shortCharacters a text no longer than that is parsed whatever it becomes.
 * @throws TooManyValues before it makes more than about `maxValues`, and SyntaxError.
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
      // What begins or parts values: `[`, `{` and `,`.
      if ((code === 0x5b || code === 0x7b || code === 0x2c) && ++values > maxValues) {
        throw new TooManyValues(`more than ${maxValues} values`);
      }
    }
    if (quote === -1) return;
    at = endOfString(text, quote + 1);
  }
}

/** Just behind the closing quote, or the end of a text that has none. */
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
