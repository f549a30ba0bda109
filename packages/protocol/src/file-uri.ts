/**
 * `file:///…`, whose escapes spell any byte: how paths are written that are no text. Such a path is held as text of one
 * character a byte (Latin-1), so that the usual functions on paths work.
 */
export const FILE_URI_PREFIX = 'file://';

export function isFileUri(text: string): boolean {
  return text.startsWith(`${FILE_URI_PREFIX}/`);
}

/** Its path, one character a byte. What is no escape stands for itself. */
export function pathOfFileUri(uri: string): string {
  const escaped = Buffer.from(uri.slice(FILE_URI_PREFIX.length), 'utf8').toString('latin1');
  return escaped.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** A path, or a part of one, of one character a byte as it stands in such a URI. */
export function escapedForFileUri(path: string): string {
  return path.replace(/[^\w./~-]/g, escapeByte);
}

function escapeByte(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}
