import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IdSource } from '../base/id-source.ts';

/**
 * Returns the id of the only server of a database, which is stored in a file so that a restarted server recognizes the
 * records it left behind. `serverDir` belongs to this server alone.
 */
export function storedServerId(serverDir: string, ids: IdSource): string {
  const file = join(serverDir, 'server-id');
  mkdirSync(serverDir, { recursive: true, mode: 0o700 });
  const kept = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  // Empty if the first start was killed here.
  if (kept === '') writeFileSync(file, ids.next('srv_'), { flush: true, mode: 0o600 });
  const id = readFileSync(file, 'utf8').trim();
  if (!id.startsWith('srv_')) throw new Error(`${file} does not hold a server id; remove it`);
  return id;
}
