/**
 * Does all of it at the same time and waits for all, whatever fails: nothing of it goes on behind the back of a caller
 * that was told of a failure.
 *
 * @throws what the first of the list threw, of those that did.
 */
export async function together<Work extends readonly Promise<unknown>[]>(
  work: readonly [...Work],
): Promise<{ -readonly [Part in keyof Work]: Awaited<Work[Part]> }> {
  await Promise.allSettled(work);
  return Promise.all(work);
}
