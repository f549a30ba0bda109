/**
 * Patterns that select artifacts. A pattern is a path: `*` in a name stands for any text, `?` for one character, and
 * `**` as a whole name for any number of directories. As in a shell, a name with a leading dot is matched only by a
 * pattern with a leading dot. No library is used, because libraries translate patterns to regular expressions, and a
 * hostile pattern can make these take exponential time. Here the time is proportional to the lengths of pattern and
 * name.
 */
const ANY_DIRECTORIES = '**';

/** How far the names of a path match a pattern: indices of the names of the pattern that may match the next name. */
export type PatternState = ReadonlySet<number>;

export class ArtifactPattern {
  readonly #names: readonly string[];
  readonly start: PatternState;

  constructor(pattern: string) {
    const names = pattern.split('/');
    // At the end, `**` stands for the files below as well.
    this.#names = names.at(-1) === ANY_DIRECTORIES ? [...names, '*'] : names;
    this.start = this.#closed([0]);
  }

  /** Returns the state after a further name of the path. An empty state matches nothing any more. */
  next(state: PatternState, name: string): PatternState {
    const following: number[] = [];
    for (const index of state) {
      const wanted = this.#names[index];
      if (wanted === undefined) continue;
      if (wanted === ANY_DIRECTORIES) {
        if (!name.startsWith('.')) following.push(index);
      } else if (matchesName(wanted, name)) following.push(index + 1);
    }
    return this.#closed(following);
  }

  /** Returns whether the names so far are a whole path of the pattern. */
  accepts(state: PatternState): boolean {
    return state.has(this.#names.length);
  }

  /** Adds what follows each `**`, which may stand for no directory. */
  #closed(indices: readonly number[]): PatternState {
    const state = new Set(indices);
    for (const index of state) if (this.#names[index] === ANY_DIRECTORIES) state.add(index + 1);
    return state;
  }
}

/** Takes at most the product of both lengths: after a mismatch, only the last `*` takes one more character. */
function matchesName(pattern: string, name: string): boolean {
  if (name.startsWith('.') && !pattern.startsWith('.')) return false;
  const [wanted, given] = [[...pattern], [...name]];
  let at = 0;
  let star = -1;
  let taken = 0;
  for (let index = 0; index < given.length; ) {
    if (wanted[at] === '*') {
      star = at;
      taken = index;
      at += 1;
    } else if (wanted[at] === '?' || (at < wanted.length && wanted[at] === given[index])) {
      at += 1;
      index += 1;
    } else if (star >= 0) {
      taken += 1;
      index = taken;
      at = star + 1;
    } else return false;
  }
  while (wanted[at] === '*') at += 1;
  return at === wanted.length;
}
