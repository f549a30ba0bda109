/**
 * Waits until all promises settle, even after a failure: no work continues in the background once the caller sees the
 * error.
 *
 * @throws the error of the first promise in the list that rejected.
 */
export async function settleAll<Work extends readonly Promise<unknown>[]>(
  work: readonly [...Work],
): Promise<{ -readonly [Part in keyof Work]: Awaited<Work[Part]> }> {
  await Promise.allSettled(work);
  return Promise.all(work);
}
