import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where `npm start` leaves the address and the first key of its installation. */
export function clientFilePath(home = homedir()): string {
  return join(home, '.config', 'cloche', 'config.json');
}

/** Nothing of a file that is not there or cannot be used: the flags and the environment do without it. */
export async function readClientFile(path = clientFilePath()): Promise<{ url?: string; apiKey?: string }> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, 'utf8'));
  } catch {
    return {};
  }
  const { url, apiKey } = (content ?? {}) as { url?: unknown; apiKey?: unknown };
  return { ...(typeof url === 'string' ? { url } : {}), ...(typeof apiKey === 'string' ? { apiKey } : {}) };
}
