/**
 * Estimated memory of a waiting instance that loads Python itself. Used until an instance of the version has been
 * measured, because warm imports can make it larger. Measured: 103 to 105 MB in the control group, where an instance of
 * a curated template has 15 to 18 MB.
 */
const OWN_ZYGOTE_BYTES = 100 * 1024 * 1024;

/**
 * Converts the memory of waiting instances to places of the pool. An instance of a curated template takes one place. An
 * instance that loads Python itself needs several times the memory and takes as many places.
 */
export class PoolCapacity {
  readonly #placeBytes: number;
  /**
   * Largest memory of a waiting instance, by version. Contains only versions whose instances load Python themselves.
   */
  readonly #heldBytes = new Map<string, number>();

  /** @param placeBytes memory of one place; `Infinity` makes each instance take one place */
  constructor(placeBytes: number) {
    this.#placeBytes = placeBytes;
  }

  of(templateVersionId: string): number {
    return Math.max(1, Math.ceil((this.#heldBytes.get(templateVersionId) ?? 0) / this.#placeBytes));
  }

  /** Notes that instances of the version load Python themselves. Call it before the first one is launched. */
  expectOwnZygote(templateVersionId: string): void {
    this.note(templateVersionId, OWN_ZYGOTE_BYTES);
  }

  /** Whether instances of the version load Python themselves. */
  hasOwnZygote(templateVersionId: string): boolean {
    return this.#heldBytes.has(templateVersionId);
  }

  note(templateVersionId: string, heldBytes: number): void {
    this.#heldBytes.set(templateVersionId, Math.max(heldBytes, this.#heldBytes.get(templateVersionId) ?? 0));
  }

  /** Forgets all versions except these. */
  keep(templateVersionIds: ReadonlySet<string>): void {
    for (const id of this.#heldBytes.keys()) if (!templateVersionIds.has(id)) this.#heldBytes.delete(id);
  }
}
