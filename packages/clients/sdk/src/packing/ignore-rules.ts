import ignore, { type Ignore } from 'ignore';

/** The files of a folder that name what is left out. */
export interface IgnoreFiles {
  readonly gitignore?: Buffer | undefined;
  readonly clocheignore?: Buffer | undefined;
}

/** Git compares the case of names, and so do these rules, on every platform. */
const OPTIONS = { ignorecase: false, allowRelativePaths: true };

/**
 * Decides which paths are left out, by the `.gitignore` and `.clocheignore` files of a folder and of the folders above
 * it. Rules of every `.clocheignore` come after those of every `.gitignore`, so they can also include a path again.
 * Immutable. Paths have one character for each byte (Latin-1).
 */
export class IgnoreRules {
  static readonly none = new IgnoreRules(ignore(OPTIONS), ignore(OPTIONS));

  readonly #git: Ignore;
  readonly #cloche: Ignore;
  readonly #all: Ignore;

  private constructor(git: Ignore, cloche: Ignore) {
    this.#git = git;
    this.#cloche = cloche;
    this.#all = ignore(OPTIONS).add(git).add(cloche);
  }

  /** Returns these rules with those of a folder below. The folder of the first rules is the empty string. */
  within(folder: string, { gitignore, clocheignore }: IgnoreFiles): IgnoreRules {
    if (!gitignore && !clocheignore) return this;
    return new IgnoreRules(extended(this.#git, folder, gitignore), extended(this.#cloche, folder, clocheignore));
  }

  /** Returns whether the path is left out. The folders above it must not be: nothing in those is looked at. */
  leavesOut(path: string, isDirectory: boolean): boolean {
    return this.#all.ignores(isDirectory ? `${encoded(path)}/` : encoded(path));
  }
}

function extended(rules: Ignore, folder: string, file: Buffer | undefined): Ignore {
  if (!file) return rules;
  return ignore(OPTIONS)
    .add(rules)
    .add(patternsOf(file).map((pattern) => ({ pattern: below(folder, pattern) })));
}

const BYTE_ORDER_MARK = '\u00ef\u00bb\u00bf';

function patternsOf(file: Buffer): string[] {
  const text = file.toString('latin1');
  const lines = (text.startsWith(BYTE_ORDER_MARK) ? text.slice(BYTE_ORDER_MARK.length) : text).split(/\r?\n/);
  return lines.filter((line) => line !== '' && !line.startsWith('#')).map(encoded);
}

/** Returns the pattern of a file in `folder` as a pattern of the topmost folder. */
function below(folder: string, pattern: string): string {
  if (folder === '') return pattern;
  const [, sign = '', rest = ''] = /^(!?)(.*)$/s.exec(pattern) ?? [];
  // A slash that is not the last character binds the pattern to its folder. Spaces at the end do not count.
  const isAnchored = /\/(?! *$)/.test(rest);
  const place = encoded(folder).replace(/[\\*?[\]!# ]/g, '\\$&');
  return `${sign}/${place}/${isAnchored ? '' : '**/'}${rest.replace(/^\//, '')}`;
}

/**
 * First of 256 code points without a meaning of their own, for bytes that `ignore` would take for more than a letter.
 */
const FIRST_PRIVATE = 0xe100;

/**
 * Replaces control characters and the bytes of non-ASCII characters, in paths and patterns alike: patterns match bytes,
 * and white space other than a space belongs to a name.
 */
function encoded(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: names may contain any byte
  return text.replace(/[\x00-\x1f\x7f-\xff]/g, (byte) => String.fromCharCode(FIRST_PRIVATE + byte.charCodeAt(0)));
}
