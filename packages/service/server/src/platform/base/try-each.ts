/** Failures after which no further item is tried: each may be a wait for a store that does not answer. */
const MOST_FAILURES = 10;

/**
 * Calls `act` for each item, one after another, also after one that fails, so that it delays no other.
 *
 * @throws the first error, when all items or ten that fail have been tried
 */
export async function tryEach<T>(
  items: Iterable<T> | AsyncIterable<T>,
  act: (item: T) => Promise<unknown>,
): Promise<void> {
  const errors: unknown[] = [];
  for await (const item of items) {
    await act(item).catch((error: unknown) => errors.push(error));
    if (errors.length >= MOST_FAILURES) break;
  }
  if (errors.length > 0) throw errors[0];
}
