import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ApiAnswer } from './call-api.ts';
import type { KeyWorld } from './keys.ts';

export const SECRET_VALUE = 'value-of-the-payments-api-7f3a';
export const SECRET_HOSTS = ['api.test', '*.wild.test', '192.0.2.1'];

/** Requests a new secret. `body` replaces fields of the usual one. */
export function createSecret(world: KeyWorld, body: object = {}, idempotencyKey?: string): Promise<ApiAnswer> {
  return world.call('POST', '/v1/secrets', {
    body: { name: 'payments', value: SECRET_VALUE, hosts: SECRET_HOSTS, ...body },
    ...(idempotencyKey && { idempotencyKey }),
  });
}

/** Returns the files and tables of the installation and its log, if they contain a text. */
export async function placesOf(world: KeyWorld, text: string): Promise<string[]> {
  const names = readdirSync(world.folder, { recursive: true, encoding: 'utf8' });
  const files = names.map((name) => join(world.folder, name)).filter((path) => statSync(path).isFile());
  return [
    ...files.filter((path) => readFileSync(path).includes(text)),
    ...(await world.stored.tablesWith(text)),
    ...(world.lines.join().includes(text) ? ['log'] : []),
  ];
}
