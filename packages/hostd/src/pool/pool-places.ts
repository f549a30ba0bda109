/**
 * Memory of an instance that loads Python itself, measured: 103 to 105 MB in its control group, of which those of curated
 * templates have 15 to 18 MB. Counted until an instance of the version has been measured, which may have warm imports.
 */
const OWN_ZYGOTE_BYTES = 100 * 1024 * 1024;

/**
 * Counts how many places of the pool an instance of each version takes. The default pool has as many places as instances of
 * curated templates fit into its share of the memory. An instance that loads Python itself holds as much as several of them.
 */
export class PoolPlaces {
  readonly #placeBytes: number;
  /** Most memory that an instance of the version held while it waited; only of versions that load Python themselves. */
  readonly #heldBytes = new Map<string, number>();

  /** @param placeBytes memory of one place; `Infinity` where instances are counted, and not their memory */
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

  /** Forgets all versions but those. */
  keep(templateVersionIds: ReadonlySet<string>): void {
    for (const id of this.#heldBytes.keys()) if (!templateVersionIds.has(id)) this.#heldBytes.delete(id);
  }
}
