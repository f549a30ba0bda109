import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';

/** Configuration of the command line when the environment has neither URL nor key. */
export const ClientConfig = Type.Object({ url: Type.String(), apiKey: Type.String() });
export type ClientConfig = Static<typeof ClientConfig>;

export function clientConfigFile(home: string = homedir()): string {
  return join(home, '.config', 'cloche', 'config.json');
}

/** Reads the configuration; undefined when there is no valid one. */
export async function readClientConfig(file: string): Promise<ClientConfig | undefined> {
  const content = await readContent(file);
  return Value.Check(ClientConfig, content) ? content : undefined;
}

async function readContent(file: string): Promise<object | undefined> {
  try {
    const parsed: unknown = JSON.parse(await readFile(file, 'utf8'));
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Writes the configuration, beside the services that the command line has saved there. Only the owner can read it from the first byte on. */
export async function writeClientConfig(file: string, config: ClientConfig): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${process.pid}`;
  const content = { ...(await readContent(file)), ...config };
  await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
}
