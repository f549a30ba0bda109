import { setImmediate } from 'node:timers/promises';
import type { Operation, ResponseOf } from '@cloche/contract';
import type { List } from '../db/list.ts';
import type { Place } from '../db/list-part.ts';
import type { ListScope } from './list-cursors.ts';
import { type RequestContext, type Route, route } from './route.ts';

/** Entries of a complete list that are read and converted in one turn of the event loop. */
const SLICE = 500;

type ListOperation = Operation & { readonly response: { readonly schema: { readonly properties: { data: unknown } } } };
type ItemOf<O extends Operation> = ResponseOf<O> extends { data: readonly (infer Item)[] } ? Item : never;

/**
 * Returns the route of a list: one page of it with `limit`, and otherwise all of it, read in slices between which other
 * requests run (docs/design/records.md, Lists).
 */
export function listRoute<const O extends ListOperation, Entry>(
  operation: O,
  open: (request: RequestContext<O>) => List<Entry, ItemOf<O>> | Promise<List<Entry, ItemOf<O>>>,
): Route {
  // Sound: every list has the same response around its items.
  return route(operation, async (request) => (await answer(operation, request, await open(request))) as ResponseOf<O>);
}

async function answer<Entry, Item>(
  { id: operationId }: Operation,
  { call: { credential, signal }, params, query, cursors }: RequestContext,
  list: List<Entry, Item>,
) {
  const { limit, cursor, ...filters } = query as { limit?: number; cursor?: string };
  const scope: ListScope = { operationId, orgId: credential.orgId, params, filters };
  const after = cursor === undefined ? undefined : cursors.read(scope, cursor);
  if (limit === undefined && list.all) return list.all(after);
  if (limit === undefined) return { data: await readAll(list, after, signal), hasMore: false };
  const entries = await list.read({ after, limit: limit + 1 });
  const page = entries.slice(0, limit);
  const last = page.at(-1);
  const data = await list.show(page);
  if (entries.length <= limit || last === undefined) return { data, hasMore: false };
  return { data, hasMore: true, nextCursor: cursors.write(scope, list.placeOf(last)) };
}

async function readAll<Entry, Item>(list: List<Entry, Item>, after: Place | undefined, signal: AbortSignal) {
  const data: Item[] = [];
  for (let from = after; ; ) {
    const slice = await list.read({ after: from, limit: SLICE });
    for (const item of await list.show(slice)) data.push(item);
    const last = slice.at(-1);
    if (slice.length < SLICE || last === undefined) return data;
    from = list.placeOf(last);
    await setImmediate();
    signal.throwIfAborted();
  }
}
