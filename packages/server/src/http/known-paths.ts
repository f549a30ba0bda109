/** Tells a path that exists, with other methods, from one that does not. */
export class KnownPaths {
  readonly #paths = new Map<string, { pattern: RegExp; methods: Set<string> }>();

  /** `url` as the router writes it: parameters after a colon, the rest of a path as `*`. */
  add(method: string, url: string): void {
    const known = this.#paths.get(url) ?? { pattern: patternOf(url), methods: new Set() };
    known.methods.add(method);
    this.#paths.set(url, known);
  }

  /** For `Allow`; empty when there is no such path. A path without parameters hides one with them, as in the router. */
  methodsOf(path: string): string[] {
    const exact = this.#paths.get(path);
    if (exact) return [...exact.methods];
    const methods = [...this.#paths.values()].flatMap((known) => (known.pattern.test(path) ? [...known.methods] : []));
    return [...new Set(methods)];
  }
}

function patternOf(url: string): RegExp {
  const literal = url.replace(/[.+?^$()|[\]{}\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\*/g, '.*')}$`);
}
