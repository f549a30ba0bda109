/** A process that commits one transaction in the database of its argument, and stays in the middle of a second one. */
import { migrate } from '../src/platform/db/migrate.ts';
import { openDatabase } from '../src/platform/db/open-database.ts';
import { Transactions } from '../src/platform/db/transactions.ts';

const db = await openDatabase(process.argv[2] ?? '');
await migrate(db);
const transactions = new Transactions(db);

function write(name: string, ready?: () => Promise<never>) {
  return transactions.run(async ({ db: own }) => {
    for (const id of [`${name}_1`, `${name}_2`]) {
      await own.insertInto('orgs').values({ id, name: id, created_at: 1 }).execute();
    }
    await ready?.();
  });
}

await write('committed');
// The timer keeps the process alive.
setInterval(() => undefined, 1000);
await write('unfinished', () => {
  process.stdout.write('ready');
  return new Promise<never>(() => undefined);
});
