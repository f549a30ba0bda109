/** Tells a path that exists, with other methods, from one that does not. */
export class KnownPaths {
  readonly #paths = new Map<string, { pattern: RegExp; methods: Set<string> }>();

  /** `path` with parameters in braces. */
  add(method: string, path: string): void {
    const known = this.#paths.get(path) ?? { pattern: patternOf(path), methods: new Set() };
    known.methods.add(method);
    if (method === 'GET') known.methods.add('HEAD');
    this.#paths.set(path, known);
  }

  /** For `Allow`; empty when there is no such path. */
  methodsOf(path: string): string[] {
    return [...this.#paths.values()].flatMap(({ pattern, methods }) => (pattern.test(path) ? [...methods] : []));
  }
}

function patternOf(path: string): RegExp {
  const literal = path.replace(/[.*+?^$()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/\{\w+\}/g, '[^/]+')}$`);
}
