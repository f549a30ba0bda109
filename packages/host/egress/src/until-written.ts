import { existsSync } from 'node:fs';
import { watch } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Resolves when a file exists. Its folder must exist, and the file must appear whole, by a rename. */
export async function untilWritten(file: string): Promise<void> {
  const stop = new AbortController();
  // Before the first look, so that no change is missed.
  const changes = watch(dirname(file), { signal: stop.signal });
  const watching = changes[Symbol.asyncIterator]();
  let change = watching.next();
  while (!existsSync(file)) {
    await change;
    change = watching.next();
  }
  stop.abort();
  // The last one is not waited for: it fails by the abort.
  change.catch(() => undefined);
}
