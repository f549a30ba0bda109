/** Control characters but for backspace, tab, line feed and carriage return. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u0007\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
/** The part of a sequence that sets colours and attributes of text, before its final `m`. */
const ATTRIBUTES = /^[\d;:]{0,128}$/;
/** The last attribute of such a sequence if it takes all of them back. */
const RESET = /(?:^|;)0*$/;
export const RESET_ATTRIBUTES = '\u001b[0m';

const ESCAPE = '\u001b';
/** Characters that begin a sequence after an escape character, or alone as characters of the C1 set. */
const CONTROL_SEQUENCE = ['[', '\u009b'];
/** Device control, title of screen, start of string, operating system command, privacy message, application command. */
const STRINGS = ['P', 'k', 'X', ']', '^', '_', '\u0090', '\u0098', '\u009d', '\u009e', '\u009f'];

type State = 'text' | 'escape' | 'intermediate' | 'sequence' | 'string';

/**
 * Reduces output of programs to what may reach a terminal: text, colours, and movements within the line. Drops all
 * other sequences, which set titles and the clipboard, ask the terminal for answers that become input, or change the
 * screen. A sequence may be spread over several parts of the output. A string that has no end ends with its line.
 */
export class ProgramText {
  readonly #hasColors: boolean;
  #state: State = 'text';
  #parameters = '';
  #hasAttributes = false;

  /** @param hasColors whether colours pass */
  constructor(hasColors: boolean) {
    this.#hasColors = hasColors;
  }

  /** Returns what may be written of the next part of the output. */
  pass(text: string): string {
    let passed = '';
    for (let at = 0; at < text.length; at += 1) {
      if (this.#state === 'text') {
        CONTROL.lastIndex = at;
        const end = CONTROL.exec(text)?.index ?? text.length;
        passed += text.slice(at, end);
        at = end;
      }
      passed += this.#take(text.charAt(at));
    }
    return passed;
  }

  /** Forgets an unfinished sequence. Returns what takes the attributes back that are left. */
  end(): string {
    const left = this.#hasAttributes ? RESET_ATTRIBUTES : '';
    this.#state = 'text';
    this.#hasAttributes = false;
    return left;
  }

  /** Returns what passes of one character. Each control character ends an unfinished sequence. */
  #take(char: string): string {
    if (char === '') return '';
    if (char < ' ' || (char >= '\u007f' && char <= '\u009f')) return this.#takeControl(char);
    switch (this.#state) {
      case 'text':
        return char;
      case 'escape':
        return this.#begin(char);
      case 'intermediate':
        if (!isIntermediate(char)) this.#state = 'text';
        return char > '~' ? char : '';
      case 'sequence':
        return this.#goOn(char);
      case 'string':
        return '';
    }
  }

  #takeControl(char: string): string {
    // Inside a string, most terminals ignore those that do not end it.
    if (this.#state === 'string' && char < ' ' && !'\u0007\n\u0018\u001a\u001b'.includes(char)) return '';
    const isEscape = char === ESCAPE;
    this.#state = 'text';
    if (isEscape) this.#state = 'escape';
    else if (char > '~') return this.#begin(char);
    return '\b\t\n\r'.includes(char) ? char : '';
  }

  #begin(char: string): string {
    this.#parameters = '';
    if (CONTROL_SEQUENCE.includes(char)) this.#state = 'sequence';
    else if (STRINGS.includes(char)) this.#state = 'string';
    else if (isIntermediate(char)) this.#state = 'intermediate';
    else this.#state = 'text';
    return char > '\u009f' ? char : '';
  }

  #goOn(char: string): string {
    if (char < '@') {
      // One more than may pass, so that a longer one does not.
      this.#parameters = (this.#parameters + char).slice(0, 129);
      return '';
    }
    this.#state = 'text';
    if (char > '~') return char;
    if (char !== 'm' || !this.#hasColors || !ATTRIBUTES.test(this.#parameters)) return '';
    this.#hasAttributes = !RESET.test(this.#parameters);
    return `${ESCAPE}[${this.#parameters}m`;
  }
}

function isIntermediate(char: string): boolean {
  return char >= ' ' && char <= '/';
}
