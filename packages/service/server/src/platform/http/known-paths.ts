/** Distinguishes an unknown path from a known path with other methods. */
export class KnownPaths {
  readonly #paths = new Map<string, { pattern: RegExp; parameters: number; methods: Set<string> }>();

  /** @param url in the router's form: parameters after a colon, the rest of a path as `*`. */
  add(method: string, url: string): void {
    const known = this.#paths.get(url) ?? {
      pattern: patternOf(url),
      parameters: url.split(/:\w+|\*/).length - 1,
      methods: new Set(),
    };
    known.methods.add(method);
    this.#paths.set(url, known);
  }

  /**
   * Returns the methods of a path for `Allow`; empty for an unknown path. As in the router, the path with the fewest
   * parameters hides others.
   */
  methodsOf(path: string): string[] {
    const matching = [...this.#paths.values()].filter(({ pattern }) => pattern.test(path));
    const fewest = Math.min(...matching.map(({ parameters }) => parameters));
    return matching.flatMap(({ methods, parameters }) => (parameters === fewest ? [...methods] : []));
  }
}

function patternOf(url: string): RegExp {
  const literal = url.replace(/[.+?^$()|[\]{}\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\*/g, '.*')}$`);
}
