import { createdPlace, type ListPart, type Place } from './list-part.ts';

/** A list as one caller sees it, in its order. */
export interface List<Entry, Item> {
  /** Returns the entries of a part; fewer than its limit only at the end of the list. */
  read(part: ListPart): Promise<readonly Entry[]>;
  placeOf(entry: Entry): Place;
  show(entries: readonly Entry[]): readonly Item[] | Promise<readonly Item[]>;
  /** Answers with everything after a place. Absent where `read` may be called for one slice after another. */
  readonly all?: (after: Place | undefined) => Promise<unknown>;
}

const LABEL = 'metadata.';

/** Returns the labels that a query selects by. */
export function labelsOf(query: object): (readonly [key: string, value: string])[] {
  return Object.entries(query).flatMap(([name, value]) =>
    name.startsWith(LABEL) ? [[name.slice(LABEL.length), String(value)] as const] : [],
  );
}

/** Returns a list of records that are ordered by their creation, the newest first. */
export function newestFirst<Entry extends { readonly createdAt: number; readonly id: string }, Item>(
  read: (part: ListPart) => Promise<readonly Entry[]>,
  show: (entry: Entry) => Item,
): List<Entry, Item> {
  return { read, placeOf: createdPlace, show: (entries) => entries.map((entry) => show(entry)) };
}

/**
 * Returns a list of entries that are all in memory, in their order.
 *
 * @param follows whether an entry comes after a place whose entry has gone
 */
export function inMemory<Entry, Item>(
  entries: readonly Entry[],
  placeOf: (entry: Entry) => Place,
  { follows, show }: { follows: (entry: Entry, place: Place) => boolean; show: (entry: Entry) => Item },
): List<Entry, Item> {
  const nextOf = (after: Place) => {
    const named = entries.findIndex((entry) => placeOf(entry)[1] === after[1]);
    return named === -1 ? entries.findIndex((entry) => follows(entry, after)) : named + 1;
  };
  const read = async ({ after, limit }: ListPart) => {
    const from = after ? nextOf(after) : 0;
    return from === -1 ? [] : entries.slice(from, from + limit);
  };
  return { read, placeOf, show: (some) => some.map((entry) => show(entry)) };
}
