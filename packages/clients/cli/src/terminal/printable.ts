/**
 * Makes text that a sandbox may have chosen safe for a terminal: file names, failure reasons, artifact names. Program
 * output is not such text; it is written unchanged, including colours.
 */
import { stripVTControlCharacters } from 'node:util';
import type { Colors } from './terminal.ts';

/** Control characters, and characters that are invisible or change the text direction. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** Returns one line without escape sequences, control characters and invisible characters. */
export function printable(text: string): string {
  return stripVTControlCharacters(text).replace(UNSEEN, ' ');
}

/** Returns one line of JSON with those characters escaped. The parsed value stays the same. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(UNSEEN, (unseen) => unseen.split('').map(escaped).join(''));
}

/** Returns indented JSON with those characters escaped, and names and texts in colours. */
export function jsonShown(value: unknown, colors: Colors): string {
  const lines = JSON.stringify(value, null, 2).split('\n');
  return lines
    .map((line) => line.replace(UNSEEN, (unseen) => unseen.split('').map(escaped).join('')))
    .map((line) => {
      const [, space = '', name = '', rest = ''] = /^( *)("(?:[^"\\]|\\.)*": )?(.*)$/.exec(line) ?? [];
      const colored = rest.replace(/^".*"/, (text) => colors.green(text));
      return space + (name && colors.cyan(name)) + colored;
    })
    .join('\n');
}

function escaped(codeUnit: string): string {
  return `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
