import type { Language } from '@cloche/sdk';

/** Strings and comments of a language; of two that begin alike, the longer one first. */
interface Lexicon {
  readonly strings: readonly string[];
  /** Strings that may go on in the next line. */
  readonly longStrings: readonly string[];
  readonly lineComment: string;
  readonly comment?: readonly [begin: string, end: string];
}

const PYTHON: Lexicon = { strings: ["'", '"'], longStrings: ['"""', "'''"], lineComment: '#' };
const SCRIPT: Lexicon = { strings: ["'", '"'], longStrings: ['`'], lineComment: '//', comment: ['/*', '*/'] };

/** An operator at the end of a line of JavaScript, after which a statement goes on. */
const SCRIPT_GOES_ON = /(?:=>|&&|\|\||\?\?|[=+*/%<>&|^?:,.-])$/;
const SCRIPT_ENDS = /(?:\+\+|--)$/;

/** Returns whether code that a person types can run, rather than goes on in the next line, as its interpreter decides. */
export function isComplete(language: Language, code: string): boolean {
  const { isOpen, plain } = scan(code, language === 'python' ? PYTHON : SCRIPT);
  if (isOpen) return false;
  return language === 'python' ? isCompletePython(plain) : isCompleteScript(plain);
}

/** A block ends with an empty line; a statement without one ends with its line. */
function isCompletePython(plain: string): boolean {
  if (plain.endsWith('\\')) return false;
  const lines = plain.split('\n');
  if (lines.at(-1)?.trim() === '' && lines.length > 1) return true;
  const statements = lines.filter((line) => line.trim() !== '');
  const last = statements.at(-1)?.trimEnd() ?? '';
  const isBlock = statements.some((line) => line.trimEnd().endsWith(':') || line.startsWith('%%'));
  return !isBlock && !/^\s/.test(last) && !last.startsWith('@');
}

function isCompleteScript(plain: string): boolean {
  const last = plain.trimEnd();
  // An empty line asks for an end.
  if (plain.endsWith('\n')) return true;
  return !SCRIPT_GOES_ON.test(last) || SCRIPT_ENDS.test(last);
}

/**
 * Returns whether a bracket, a string or a comment is open at the end, and the code without comments and with empty
 * brackets and strings in place of what they contain.
 */
function scan(
  code: string,
  { strings, longStrings, lineComment, comment }: Lexicon,
): { isOpen: boolean; plain: string } {
  let plain = '';
  let depth = 0;
  for (let at = 0; at < code.length; ) {
    const rest = code.slice(at, at + 3);
    const quote = [...longStrings, ...strings].find((each) => rest.startsWith(each));
    if (quote !== undefined) {
      const end = endOfString(code, at + quote.length, quote, longStrings.includes(quote));
      if (end === undefined) return { isOpen: true, plain };
      plain += depth === 0 ? quote : '';
      at = end;
    } else if (rest.startsWith(lineComment)) {
      const end = code.indexOf('\n', at);
      at = end === -1 ? code.length : end;
    } else if (comment && rest.startsWith(comment[0])) {
      const end = code.indexOf(comment[1], at + 2);
      if (end === -1) return { isOpen: true, plain };
      at = end + 2;
    } else {
      const character = code[at] ?? '';
      if ('([{'.includes(character)) depth += 1;
      if (')]}'.includes(character)) depth = Math.max(0, depth - 1);
      if (depth === 0) plain += character;
      at += 1;
    }
  }
  return { isOpen: depth > 0, plain };
}

/** Returns where a string ends; undefined if it goes on. A string of one line that is not closed ends with its line. */
function endOfString(code: string, from: number, quote: string, isLong: boolean): number | undefined {
  for (let at = from; at < code.length; at += 1) {
    if (code[at] === '\\') at += 1;
    else if (code.startsWith(quote, at)) return at + quote.length;
    else if (code[at] === '\n' && !isLong) return at;
  }
  return isLong || code.endsWith('\\') ? undefined : code.length;
}
