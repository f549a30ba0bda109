/**
 * Patterns that select artifacts. A pattern is a path: `*` in a name stands for any text, `?` for one character, and
 * `**` as a whole name for any number of directories. As in a shell, a name with a leading dot is matched only by a
 * pattern with a leading dot. No library is used, because libraries translate patterns to regular expressions, and a
 * hostile pattern can make these take exponential time.
 */
import { NamePattern } from './name-pattern.ts';

const ANY_DIRECTORIES = '**';

/** How far the names of a path match a pattern: indices of the names of the pattern that may match the next name. */
export type PatternState = ReadonlySet<number>;

export class ArtifactPattern {
  readonly #names: readonly (NamePattern | typeof ANY_DIRECTORIES)[];
  readonly start: PatternState;

  constructor(pattern: string) {
    // One `**` after another stands for no more than one.
    const names = pattern.split('/').filter((name, index, all) => name !== ANY_DIRECTORIES || name !== all[index - 1]);
    // At the end, `**` stands for the files below as well.
    if (names.at(-1) === ANY_DIRECTORIES) names.push('*');
    this.#names = names.map((name) => (name === ANY_DIRECTORIES ? name : new NamePattern(name)));
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
      } else if (wanted.matches(name)) following.push(index + 1);
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
