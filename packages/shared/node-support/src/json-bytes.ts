/**
 * Matches characters that JSON may escape: quotes, backslashes, control characters, and surrogates, which may be lone.
 */
const MAY_NEED_ESCAPE = /[^ !#-[\]-\ud7ff\ue000-\uffff]/;

/** Returns the bytes of `text` in JSON, in UTF-8 and without the quotes: a control character takes up to six. */
export function jsonBytes(text: string): number {
  if (!MAY_NEED_ESCAPE.test(text)) return Buffer.byteLength(text);
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}
