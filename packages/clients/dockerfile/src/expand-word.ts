/** Returns the value of a variable, or undefined if it is not set. */
export type Lookup = (name: string) => string | undefined;

export interface ExpandOptions {
  /** `\`, or the character of the `# escape` directive. */
  escapeCharacter: string;
  /** `word`: quotes are removed, as in a shell. `text`: quotes are ordinary characters, as in a here-document. */
  form?: 'word' | 'text';
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*/;

/**
 * Replaces `$NAME`, `${NAME}` and `${NAME:-default}` as Docker does in instructions. A variable that is not set is
 * empty. Our own code: the parser's own replacement ignores quotes and defaults.
 *
 * @throws {SyntaxError} for a form of `${…}` that is not supported, or one that does not end.
 */
export function expand(input: string, lookup: Lookup, options: ExpandOptions): string {
  return new Expansion(input, lookup, options).result();
}

class Expansion {
  readonly #input: string;
  readonly #lookup: Lookup;
  readonly #escape: string;
  readonly #isWord: boolean;
  #at = 0;

  constructor(input: string, lookup: Lookup, { escapeCharacter, form = 'word' }: ExpandOptions) {
    this.#input = input;
    this.#lookup = lookup;
    this.#escape = escapeCharacter;
    this.#isWord = form === 'word';
  }

  result(): string {
    let text = '';
    while (this.#at < this.#input.length) {
      const character = this.#next();
      if (character === '$') text += this.#variable();
      else if (character === this.#escape) text += this.#isWord ? this.#next() : this.#escaped('$');
      else if (this.#isWord && character === "'") text += this.#until("'");
      else if (this.#isWord && character === '"') text += this.#quoted();
      else text += character;
    }
    return text;
  }

  #next(): string {
    return this.#input.charAt(this.#at++);
  }

  /** Returns the text inside single quotes, in which nothing is replaced. */
  #until(end: string): string {
    const start = this.#at;
    const found = this.#input.indexOf(end, start);
    if (found === -1) throw new SyntaxError(`${end} has no matching ${end}`);
    this.#at = found + 1;
    return this.#input.slice(start, found);
  }

  #quoted(): string {
    let text = '';
    for (;;) {
      if (this.#at >= this.#input.length) throw new SyntaxError('" has no matching "');
      const character = this.#next();
      if (character === '"') return text;
      if (character === '$') text += this.#variable();
      else text += character === this.#escape ? this.#escaped('"$') : character;
    }
  }

  /** Returns the character after the escape character if it is special, and both otherwise. */
  #escaped(special: string): string {
    const next = this.#input.charAt(this.#at);
    if (next === '' || !(special + this.#escape).includes(next)) return this.#escape;
    this.#at += 1;
    return next;
  }

  #variable(): string {
    if (this.#input.charAt(this.#at) === '{') return this.#braced();
    const [name] = NAME.exec(this.#input.slice(this.#at)) ?? [];
    if (name === undefined) return '$';
    this.#at += name.length;
    return this.#lookup(name) ?? '';
  }

  #braced(): string {
    const inner = this.#input.slice(this.#at + 1, this.#closingBrace());
    this.#at += inner.length + 2;
    const [name = ''] = NAME.exec(inner) ?? [];
    const [, colon, operator, word = ''] = /^(:?)([-+?])(.*)$/s.exec(inner.slice(name.length)) ?? [];
    const value = this.#lookup(name);
    if (name !== '' && inner === name) return value ?? '';
    if (name === '' || operator === undefined)
      throw new SyntaxError(`\${${inner}} is not a supported form of a variable`);
    const isSet = colon === ':' ? Boolean(value) : value !== undefined;
    const form = this.#isWord ? 'word' : 'text';
    const replaced = () => expand(word, this.#lookup, { escapeCharacter: this.#escape, form });
    if (operator === '-') return isSet ? (value ?? '') : replaced();
    if (operator === '+') return isSet ? replaced() : '';
    if (!isSet) throw new SyntaxError(`${name} must be set${word === '' ? '' : `: ${replaced()}`}`);
    return value ?? '';
  }

  #closingBrace(): number {
    let depth = 0;
    for (let at = this.#at; at < this.#input.length; at++) {
      const character = this.#input[at];
      if (character === this.#escape) at += 1;
      else if (character === '{') depth += 1;
      else if (character === '}' && --depth === 0) return at;
    }
    throw new SyntaxError('a brace after $ has no matching }');
  }
}
