import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import {
  beat,
  claimOf,
  describeCoordination,
  openRecords,
  serverBeside,
  withServer,
} from '../../testing/coordination-suite.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { DATABASE_KIND, openBeside } from '../../testing/test-database.ts';
import { systemClock } from '../platform/base/clock.ts';
import { sharedChanges } from '../platform/db/notifications.ts';
import { Transactions } from '../platform/db/transactions.ts';

const NEEDS_SQLITE = DATABASE_KIND !== 'sqlite' && 'one server takes SQLite';

describeCoordination('one server', NEEDS_SQLITE);
describeCoordination('many servers', NEEDS_POSTGRES);

describe('the coordination of one server alone', { skip: NEEDS_SQLITE }, () => {
  it('the coordination of one server alone keeps its id, uses the clock of the host, and has a journal of claims', () =>
    withServer(async (begun) => {
      const { coordination, folder } = begun;
      const restarted = await serverBeside(begun);
      assert.equal(restarted.servers.own, coordination.servers.own);
      assert.equal(coordination.clock, systemClock);
      const store = await openRecords(begun);
      await store.records.claim(claimOf(coordination, 'idem_1'));
      assert.match(readFileSync(join(folder, 'journal'), 'utf8'), /idem_1/);
      await store.close();
    }));

  it('the coordination of one server alone never looks at others, and never gives up its work', () =>
    withServer(async ({ coordination }) => {
      const looking = coordination.watchOthers('test', () => assert.fail('there is nothing to look at'), 1);
      assert.equal(coordination.stillOwns(0, 1), true);
      assert.equal(coordination.endsSilentSandboxes, true);
      await looking.stop();
    }));
});

describe('the coordination of many servers of a database', { skip: NEEDS_POSTGRES }, () => {
  const withTwo = (act: (servers: Servers) => Promise<void>) =>
    withServer(async (begun) => {
      const db = await openBeside(begun.db);
      const other = await serverBeside({ ...begun, db });
      const leases = [await beat(begun.db, begun.coordination), await beat(db, other)];
      try {
        await act({ ...begun, one: begun.coordination, other, otherDb: db });
      } finally {
        for (const lease of leases) await lease.release();
        await other.close();
        await db.destroy();
      }
    });

  it('the coordination of many servers of a database gives each an id, and shows it the others that live', () =>
    withTwo(async ({ one, other }) => {
      assert.notEqual(one.servers.own, other.servers.own);
      assert.deepEqual(await one.servers.others(), new Set([other.servers.own]));
      assert.deepEqual(await other.servers.others(), new Set([one.servers.own]));
    }));

  it('the coordination of many servers of a database tells another server of a changed record that it waits for', () =>
    withTwo(async ({ one, other }) => {
      const [changes, others] = [one, other].map((server) =>
        sharedChanges<SandboxId>('sandbox', server.notifications, undefined),
      );
      using watch = others?.watch('sbx_1') ?? assert.fail();
      let isWoken = false;
      const woken = watch.next().then(() => {
        isWoken = true;
      });
      // The first ones may be sent before the other server listens.
      const notify = () => {
        changes?.notify('sbx_1');
        return isWoken;
      };
      await eventually(notify, { because: 'the other server heard of the change' });
      await woken;
    }));

  it('the coordination of many servers of a database lets them decide about one content one after another', () =>
    withTwo(async ({ db, one, other, otherDb }) => {
      const locks = [one.contentLocks(new Transactions(db)), other.contentLocks(new Transactions(otherDb))];
      let inside = 0;
      const decide = async () => {
        inside += 1;
        await new Promise((resolve) => setImmediate(resolve));
        assert.equal(inside, 1);
        inside -= 1;
      };
      const decisions = locks.flatMap((lock) => Array.from({ length: 4 }, () => lock.run('a'.repeat(64), decide)));
      await Promise.all(decisions);
    }));

  it('the coordination of many servers of a database leaves a claim to the database, and no journal', () =>
    withTwo(async (begun) => {
      const { one, other, otherDb, folder } = begun;
      const [own, others] = [await openRecords(begun), await openRecords({ db: otherDb, folder, coordination: other })];
      assert.deepEqual(await own.records.claim(claimOf(one, 'idem_1')), { id: 'idem_1', claim: 1 });
      assert.equal(await others.records.claim(claimOf(other, 'idem_2')), undefined);
      assert.equal(existsSync(join(folder, 'journal')), false);
      await own.close();
      await others.close();
    }));

  it('the coordination of many servers of a database counts old work as that of others, and silence as no end', () =>
    withTwo(async ({ one }) => {
      const takenAt = one.clock.now() - 1_000;
      assert.deepEqual([one.stillOwns(takenAt, 60_000), one.stillOwns(takenAt, 1_000)], [true, false]);
      assert.equal(one.endsSilentSandboxes, false);
    }));

  it('the coordination of many servers of a database looks at what others have left until it is stopped', () =>
    withTwo(async ({ one }) => {
      const looked = Promise.withResolvers<void>();
      let looks = 0;
      const looking = one.watchOthers('test', async () => ++looks === 2 && looked.resolve(), 1);
      await looked.promise;
      await looking.stop();
    }));
});

type Begun = Parameters<Parameters<typeof withServer>[0]>[0];

interface Servers extends Begun {
  readonly one: Begun['coordination'];
  readonly other: Begun['coordination'];
  readonly otherDb: Begun['db'];
}
