import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** Returns the path where `cloche start` and `cloche login` store the address and the API key. */
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

/** Replaces the client file. Only the owner can read it from the first byte on. */
export async function writeClientFile(
  content: { url: string; apiKey: string },
  path = clientFilePath(),
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, path);
}
