import type { Operations, QueryOf, ResponseOf } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { ListId } from './operation-kinds.ts';
import type { CallOptions, RequestOf } from './request.ts';

export interface PageOptions extends CallOptions {
  /** Most entries of the page, at most 500. Default: the whole list. A loop requests 100 at a time by default. */
  limit?: number | undefined;
  /** Begins after the page that had this `nextCursor`. The filters must be the same. */
  cursor?: string | undefined;
}

/** Options of a list that is filtered by id and time. */
export interface SelectionOptions extends PageOptions {
  /** Beginning of the id: its prefix, such as `sbx_`, and four characters or more. */
  idPrefix?: string | undefined;
  /** Only what was created after this time. */
  createdAfter?: Date | undefined;
  /** Only what was created before this time. */
  createdBefore?: Date | undefined;
}

/** A page of a list, or the whole list: an array that says whether more entries follow. */
export interface Page<Item> extends Array<Item> {
  readonly hasMore: boolean;
  /** `cursor` of the next page, if there is one. */
  readonly nextCursor?: string | undefined;
}

type EntryOf<Id extends ListId> = ResponseOf<Operations[Id]> extends { data: (infer Entry)[] } ? Entry : never;

/** Entries that a loop requests at a time. */
const LOOP_LIMIT = 100;

/**
 * A list that is requested when it is used. `await` returns it whole, or one page of it with `limit`. `for await` yields
 * every entry and holds one page at a time.
 *
 * ```ts
 * for await (const sandbox of cloche.sandboxes.list({ include: 'historical' })) console.log(sandbox.id);
 * ```
 */
export class PagedList<Item> implements Promise<Page<Item>>, AsyncIterable<Item> {
  readonly [Symbol.toStringTag] = 'PagedList';
  readonly #read: (options: PageOptions) => Promise<Page<Item>>;
  readonly #options: PageOptions;
  #page: Promise<Page<Item>> | undefined;

  constructor(read: (options: PageOptions) => Promise<Page<Item>>, options: PageOptions) {
    this.#read = read;
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void> {
    const { limit = LOOP_LIMIT } = this.#options;
    let { cursor } = this.#options;
    do {
      const page = await this.#read({ ...this.#options, limit, cursor });
      yield* page;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  // biome-ignore lint/suspicious/noThenProperty: awaited, it is a promise; a loop must not request the whole list.
  then<Result = Page<Item>, Failed = never>(
    onFulfilled?: ((page: Page<Item>) => Result | PromiseLike<Result>) | null,
    onRejected?: ((reason: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Result | Failed> {
    this.#page ??= this.#read(this.#options);
    return this.#page.then(onFulfilled, onRejected);
  }

  catch<Failed = never>(
    onRejected?: ((reason: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Page<Item> | Failed> {
    return this.then(null, onRejected);
  }

  finally(onFinally?: (() => void) | null): Promise<Page<Item>> {
    return this.then().finally(onFinally);
  }
}

/** Request of a list. Parameters that are undefined are not sent. */
type ListRequest<Id extends ListId> = Omit<RequestOf<Id>, 'query'> &
  SelectionOptions & {
    query?: { [Name in keyof QueryOf<Operations[Id]>]?: QueryOf<Operations[Id]>[Name] | undefined };
  };

/** Returns the list of an operation. `show` makes the entries of the list from those of the response. */
export function pagedList<Id extends ListId, Item = EntryOf<Id>>(
  client: ApiClient,
  id: Id,
  { query: own, ...request }: ListRequest<Id>,
  show?: (entry: EntryOf<Id>) => Item,
): PagedList<Item> {
  const read = async ({ limit, cursor, idPrefix, createdAfter, createdBefore, ...call }: SelectionOptions) => {
    const times = { createdAfter: createdAfter?.toISOString(), createdBefore: createdBefore?.toISOString() };
    // Sound: the options of each list allow only what its operation takes.
    const paged = { ...call, query: { ...own, idPrefix, ...times, limit, cursor } } as RequestOf<ListId>;
    const { data, hasMore, nextCursor } = await client.call<ListId>(id, paged);
    // Sound: without `show`, `Item` is what the response has.
    const items = show ? (data as EntryOf<Id>[]).map(show) : (data as Item[]);
    // Not enumerable, so that a list is equal to an array of its entries.
    return Object.defineProperties(items, {
      hasMore: { value: hasMore },
      nextCursor: { value: nextCursor },
    }) as Page<Item>;
  };
  return new PagedList(read, request);
}

/** Returns the query that selects by labels. */
export function labelQuery(metadata: Readonly<Record<string, string>> = {}): Record<`metadata.${string}`, string> {
  return Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]));
}
