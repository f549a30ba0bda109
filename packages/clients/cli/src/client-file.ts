import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** Returns the path where `cloche start` and `cloche login` store the address and the API key. */
export function clientFilePath(home = homedir()): string {
  return join(home, '.config', 'cloche', 'config.json');
}

/** Address and key of a service. */
export interface SavedService {
  readonly url?: string;
  readonly apiKey?: string;
}

export interface ClientFile extends SavedService {
  /** Further services by their names. */
  readonly services: Readonly<Record<string, SavedService>>;
}

/**
 * Reads the client file. Returns an empty object if the file is missing or unusable, because flags and the environment
 * suffice.
 */
export async function readClientFile(path = clientFilePath()): Promise<ClientFile> {
  let content: unknown;
  try {
    content = JSON.parse(await readFile(path, 'utf8'));
  } catch {
    return { services: {} };
  }
  const { services } = (content ?? {}) as { services?: unknown };
  const named = Object.entries(typeof services === 'object' && services !== null ? services : {});
  return {
    ...savedService(content),
    services: Object.fromEntries(named.map(([name, one]) => [name, savedService(one)])),
  };
}

function savedService(value: unknown): SavedService {
  const { url, apiKey } = (value ?? {}) as { url?: unknown; apiKey?: unknown };
  return { ...(typeof url === 'string' ? { url } : {}), ...(typeof apiKey === 'string' ? { apiKey } : {}) };
}

/** Replaces the client file. Only the owner can read it from the first byte on. */
export async function writeClientFile(content: ClientFile, path = clientFilePath()): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}`;
  const { services, ...unnamed } = content;
  const written = Object.keys(services).length === 0 ? unnamed : content;
  await writeFile(temporary, `${JSON.stringify(written, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, path);
}
