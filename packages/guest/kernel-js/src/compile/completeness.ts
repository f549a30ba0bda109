import type { CellSyntaxError } from './cell-syntax-error.ts';

/** As the `status` of Jupyter's `is_complete_reply`. */
export type Completeness = 'complete' | 'incomplete' | 'invalid' | 'unknown';

/** Errors of acorn and of oxc that more lines can mend. */
const ENDED_BY_MORE = /^Unterminated (?:template|multiline comment|comment)|\bEOF\b/;
const ENDED_STRING = /^Unterminated string/;

/** Returns whether a syntax error is only that the code ends too early, as Node's REPL judges it. */
export function isCutOff(code: string, { message, offset }: CellSyntaxError): boolean {
  // oxc calls a template a string.
  if (ENDED_STRING.test(message)) return code[offset] === '`' || code.trimEnd().endsWith('\\');
  return ENDED_BY_MORE.test(message) || offset >= code.trimEnd().length;
}

/** Returns the whitespace with which a client begins the next line: one step more after an opening bracket. */
export function indentAfter(code: string): string {
  const line = code.trimEnd().split('\n').at(-1) ?? '';
  const [spaces = ''] = /^[ \t]*/.exec(line) ?? [];
  return /[{[(]$/.test(line) ? `${spaces}  ` : spaces;
}
