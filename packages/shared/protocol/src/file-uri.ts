/**
 * Prefix of a `file:///…` URI, whose percent escapes can express any byte. Used for paths that are not valid UTF-8.
 * Such a path is held as text with one character for each byte (Latin-1), so that ordinary path functions work.
 */
export const FILE_URI_PREFIX = 'file://';

export function isFileUri(text: string): boolean {
  return text.startsWith(`${FILE_URI_PREFIX}/`);
}

/** Returns the URI's path, with one character for each byte. An invalid escape stays unchanged. */
export function pathOfFileUri(uri: string): string {
  const escaped = Buffer.from(uri.slice(FILE_URI_PREFIX.length), 'utf8').toString('latin1');
  return escaped.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** Escapes a path, or a part of one, with one character for each byte, for a file URI. */
export function escapedForFileUri(path: string): string {
  return path.replace(/[^\w./~-]/g, escapeByte);
}

function escapeByte(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}
