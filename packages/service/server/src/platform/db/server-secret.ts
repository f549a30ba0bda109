import { randomBytes } from 'node:crypto';
import type { Database } from './database.ts';

/** Returns 32 random bytes that are created once for each name and shared by all servers of the database. */
export async function serverSecret(db: Database, name: string): Promise<Buffer> {
  const value = randomBytes(32).toString('hex');
  await db
    .insertInto('server_secrets')
    .values({ name, value })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const query = db.selectFrom('server_secrets').select('value').where('name', '=', name);
  return Buffer.from((await query.executeTakeFirstOrThrow()).value, 'hex');
}
