/** Encodes large values as JSON in pieces, so that encoding one does not block other requests. */

/** Approximate characters that are encoded at once, in a fraction of a millisecond. */
const PIECE_CHARACTERS = 64 * 1024;
/** Most characters of a value that is encoded at once. Each takes up to six bytes. */
const LARGE_CHARACTERS = 256 * 1024;
/** Characters counted for each value besides its text, so that many small values count as large too. */
const VALUE_CHARACTERS = 16;

/** Whether the JSON of `value` is long enough to be encoded in pieces. */
export function isLarge(value: unknown): boolean {
  return charactersOf(value, LARGE_CHARACTERS) > LARGE_CHARACTERS;
}

/** Yields the output of `JSON.stringify` for a value without `toJSON`, in pieces of at most a few hundred kilobytes. */
export function* jsonPieces(value: unknown): Generator<string, void> {
  let piece = '';
  for (const token of tokensOf(value)) {
    piece += token;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

/** Returns the approximate characters of a value, and stops counting above `limit`. */
function charactersOf(value: unknown, limit: number): number {
  if (typeof value === 'string') return value.length + VALUE_CHARACTERS;
  let characters = VALUE_CHARACTERS;
  if (typeof value !== 'object' || value === null) return characters;
  // `for…in` over both takes four times as long.
  for (const inner of Array.isArray(value) ? value : Object.values(value)) {
    characters += charactersOf(inner, limit - characters);
    if (characters > limit) return characters;
  }
  return characters;
}

function* tokensOf(value: unknown): Generator<string, void> {
  if (charactersOf(value, PIECE_CHARACTERS) <= PIECE_CHARACTERS) yield JSON.stringify(value) ?? 'null';
  else if (typeof value === 'string') yield* tokensOfText(value);
  else if (Array.isArray(value)) yield* tokensOfArray(value);
  else yield* tokensOfObject(value as object);
}

function* tokensOfArray(values: readonly unknown[]): Generator<string, void> {
  yield '[';
  for (const [index, value] of values.entries()) {
    if (index > 0) yield ',';
    yield* tokensOf(value);
  }
  yield ']';
}

function* tokensOfObject(value: object): Generator<string, void> {
  let mark = '{';
  for (const [key, property] of Object.entries(value)) {
    if (property === undefined) continue;
    yield `${mark}${JSON.stringify(key)}:`;
    yield* tokensOf(property);
    mark = ',';
  }
  yield mark === '{' ? '{}' : '}';
}

function* tokensOfText(text: string): Generator<string, void> {
  yield '"';
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + PIECE_CHARACTERS);
    // Keeps the two halves of a surrogate pair in one piece.
    if (isHighSurrogate(text.charCodeAt(end - 1)) && end < text.length) end += 1;
    yield JSON.stringify(text.slice(at, end)).slice(1, -1);
    at = end;
  }
  yield '"';
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
