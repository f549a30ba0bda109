/**
 * Text that a sandbox may have chosen, for a terminal: file names, reasons of failures, names of artifacts. What a program
 * prints is not text of this kind; it is written as it comes, colours included.
 */
import { stripVTControlCharacters } from 'node:util';

/** Controls, and characters that show nothing or turn the direction of what follows. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** Returns one line without escape sequences, control characters and invisible characters. */
export function printable(text: string): string {
  return stripVTControlCharacters(text).replace(UNSEEN, ' ');
}

/** Returns one line of JSON in which such characters are escaped. The parsed value stays the same. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(UNSEEN, (unseen) => unseen.split('').map(escaped).join(''));
}

function escaped(codeUnit: string): string {
  return `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
