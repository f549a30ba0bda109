import { open } from 'node:fs/promises';

/** Returns when the file, or the names in the folder, are on the disk. */
export async function flush(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
