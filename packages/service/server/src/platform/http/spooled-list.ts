import type { Readable } from 'node:stream';

/** Approximate characters of a list from which it is sent from a file. */
const LARGE_CHARACTERS = 256 * 1024;
const PIECE_CHARACTERS = 64 * 1024;

/** The JSON of a large answer, in a file that is removed once it is read or closed. */
export class SpooledJson {
  readonly json: Readable;
  readonly bytes: number;

  constructor({ json, bytes }: { json: Readable; bytes: number }) {
    this.json = json;
    this.bytes = bytes;
  }
}

/** Writes pieces of JSON to a file, and resolves when all of them are there. */
export type Spool = (json: AsyncIterable<string>) => Promise<{ json: Readable; bytes: number }>;

/**
 * Returns the whole list of `items`. A large list is written to a file as it arrives, so that many lists of many
 * megabytes take little memory, and an error of their source is still answered as one.
 */
export async function wholeList<Item>(
  items: AsyncIterable<Item>,
  spool: Spool,
): Promise<{ data: Item[]; hasMore: boolean } | SpooledJson> {
  const source = items[Symbol.asyncIterator]();
  try {
    const data: Item[] = [];
    for (let characters = 0; characters <= LARGE_CHARACTERS; ) {
      const { done, value } = await source.next();
      if (done) return { data, hasMore: false };
      data.push(value);
      characters += JSON.stringify(value).length;
    }
    return new SpooledJson(await spool(jsonOf(data, source)));
  } finally {
    await source.return?.();
  }
}

async function* jsonOf<Item>(first: Item[], rest: AsyncIterator<Item>): AsyncGenerator<string, void> {
  let piece = `{"data":[${first.map((item) => JSON.stringify(item)).join(',')}`;
  first.length = 0;
  for (let next = await rest.next(); !next.done; next = await rest.next()) {
    piece += `,${JSON.stringify(next.value)}`;
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
  }
  yield `${piece}],"hasMore":false}`;
}
