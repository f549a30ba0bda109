/** Generates ids by counting: the first sandbox is `sbx_1`. */
export class SequentialIds {
  readonly #counts = new Map<string, number>();

  next<Prefix extends string>(prefix: Prefix): `${Prefix}${string}` {
    const count = (this.#counts.get(prefix) ?? 0) + 1;
    this.#counts.set(prefix, count);
    return `${prefix}${count}`;
  }
}
