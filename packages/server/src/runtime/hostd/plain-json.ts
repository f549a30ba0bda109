/** A shorter line is parsed as it is: it cannot become much. */
const SHORT_CHARACTERS = 64 * 1024;
/** More values than any event of an agent has: the lines of a traceback are the most. */
const MAX_SEPARATORS = 10_000;

const QUOTE = '"';
const BACKSLASH = 0x5c;

/** Text that would become far more values than an event has, which costs far more memory than the text. */
export class TooManyValues extends Error {
  override readonly name = 'TooManyValues';
}

/**
 * Reads JSON whose size is that of its strings. Throws `TooManyValues` before it makes them, and `SyntaxError`.
 */
export function parsePlainJson(text: string): unknown {
  if (text.length > SHORT_CHARACTERS) boundValues(text);
  return JSON.parse(text);
}

function boundValues(text: string): void {
  let separators = 0;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf(QUOTE, at);
    const end = quote === -1 ? text.length : quote;
    for (; at < end; at += 1) {
      const code = text.charCodeAt(at);
      // What begins or parts values: `[`, `{` and `,`.
      if ((code === 0x5b || code === 0x7b || code === 0x2c) && ++separators > MAX_SEPARATORS) {
        throw new TooManyValues(`more than ${MAX_SEPARATORS} values`);
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
