import { refusedEntry } from './entry-name.ts';

interface Region {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/**
 * The byte ranges of the entries of a zip. Entries with common bytes can unpack to far more than the size of the zip,
 * and no program writes such zips, so they are refused.
 */
export class ZipRegions {
  readonly #regions: Region[] = [];

  /** Throws `bad_archive` if the entry begins within the bytes of the one before it. */
  add(name: string, { start, end }: { start: number; end: number }): void {
    const region = { name, start, end };
    const before = this.#regions.at(-1);
    if (before && start >= before.start && start < before.end) throw overlapping(region);
    this.#regions.push(region);
  }

  /** Throws `bad_archive` if two entries share bytes, in whatever order the directory lists them. */
  requireApart(): void {
    const sorted = this.#regions.sort((one, other) => one.start - other.start);
    let end = 0;
    for (const region of sorted) {
      if (region.start < end) throw overlapping(region);
      end = region.end;
    }
  }
}

function overlapping({ name }: Region) {
  return refusedEntry(name, 'shares bytes with another entry');
}
