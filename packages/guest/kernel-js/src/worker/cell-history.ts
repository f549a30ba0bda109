/** The latest cells of a context, for Jupyter's clients. Keeps no outputs. */

const MAX_CELLS = 1000;
const MAX_CHARACTERS = 4 * 1024 * 1024;
/** Jupyter numbers the sessions of a history; a context has one. Zero is how requests name the current session. */
const SESSION = 1;

type Cell = readonly [number: number, code: string];

export class CellHistory {
  readonly #cells: Cell[] = [];
  #characters = 0;

  /** Adds a cell and forgets the oldest ones that exceed the limits. */
  add(number: number, code: string): void {
    this.#cells.push([number, code]);
    this.#characters += code.length;
    while (this.#cells.length > MAX_CELLS || this.#characters > MAX_CHARACTERS) {
      this.#characters -= this.#cells.shift()?.[1].length ?? 0;
    }
  }

  /** Returns the `history` of the reply to a `history_request`. */
  find(request: Readonly<Record<string, unknown>>): unknown[] {
    const count = positive(request.n) ?? MAX_CELLS;
    const cells = this.#wanted(request).slice(request.hist_access_type === 'range' ? 0 : -count);
    return cells.map(([number, code]) => [SESSION, number, request.output === true ? [code, null] : code]);
  }

  #wanted(request: Readonly<Record<string, unknown>>): readonly Cell[] {
    const { hist_access_type: access, pattern, session = 0, unique } = request;
    if (access === 'range') {
      if (session !== 0 && session !== SESSION) return [];
      const [start, stop] = [positive(request.start) ?? 1, positive(request.stop) ?? Number.POSITIVE_INFINITY];
      return this.#cells.filter(([number]) => number >= start && number < stop);
    }
    if (access !== 'search') return this.#cells;
    const found = this.#cells.filter(([, code]) => matches(code, typeof pattern === 'string' ? pattern : '*'));
    return unique === true ? [...new Map(found.map((cell) => [cell[1], cell])).values()] : found;
  }
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}

/** Returns whether a text matches a pattern of `*` and `?`. Takes at most time in proportion to both lengths. */
function matches(text: string, pattern: string): boolean {
  let [at, of, star, from] = [0, 0, -1, 0];
  while (at < text.length) {
    if (pattern[of] === '*') [star, from, of] = [of, at, of + 1];
    else if (pattern[of] === '?' || pattern[of] === text[at]) [at, of] = [at + 1, of + 1];
    else if (star >= 0) [from, at, of] = [from + 1, from + 1, star + 1];
    else return false;
  }
  return /^\**$/.test(pattern.slice(of));
}
