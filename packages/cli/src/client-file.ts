import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Returns the path where `npm start` stores the address and the first API key of its installation. */
export function clientFilePath(home = homedir()): string {
  return join(home, '.config', 'cloche', 'config.json');
}

/**
 * Reads the client file. Returns an empty object if the file is missing or unusable, because flags and the environment
 * suffice.
 */
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
