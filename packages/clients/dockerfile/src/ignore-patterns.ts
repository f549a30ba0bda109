import picomatch from 'picomatch';

interface Pattern {
  readonly isException: boolean;
  matches(path: string): boolean;
}

/**
 * Patterns of a `.dockerignore` file. Unlike those of `.gitignore`, a pattern begins at the context folder, and an
 * exception (`!`) also counts below an excluded directory.
 */
export class IgnorePatterns {
  readonly #patterns: readonly Pattern[];

  constructor(source: string) {
    this.#patterns = source
      .replace(/^\uFEFF/, '')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'))
      .flatMap(readPattern);
  }

  /** Whether an exception could name something below an excluded directory. */
  get hasExceptions(): boolean {
    return this.#patterns.some(({ isException }) => isException);
  }

  /** Returns whether a path relative to the context folder is excluded, itself or by one of its parents. */
  excludes(path: string): boolean {
    const parts = path.split('/');
    const paths = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
    let isExcluded = false;
    for (const pattern of this.#patterns) {
      if (pattern.isException === isExcluded && paths.some((each) => pattern.matches(each))) isExcluded = !isExcluded;
    }
    return isExcluded;
  }
}

function readPattern(line: string): Pattern[] {
  const isException = line.startsWith('!');
  const text = (isException ? line.slice(1).trim() : line).replace(/^\/+|\/+$/g, '').replace(/^(\.\/)+/, '');
  if (text === '' || text === '.') return [];
  return [{ isException, matches: patternMatcher(text) }];
}

/** Returns a matcher of `*`, `?`, `[…]`, `\` and `**`, in which a leading dot of a name is an ordinary character. */
export function patternMatcher(pattern: string): (path: string) => boolean {
  return picomatch(pattern, { dot: true, nobrace: true, noextglob: true, nonegate: true, strictSlashes: true });
}
