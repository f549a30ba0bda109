import { migrate } from '../../../packages/service/server/src/platform/db/migrate.ts';
import { openDatabase } from '../../../packages/service/server/src/platform/db/open-database.ts';
import { IdempotencyRepository } from '../../../packages/service/server/src/platform/idempotency/idempotency-repository.ts';
import { BenchDatabase } from '../bench-database.ts';
import type { Bench, Measurement, Row } from '../measurement.ts';
import { claimAndComplete } from '../record-pairs.ts';
import { beside, figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';
import { inTurns, perSecond, repeat, timed } from '../timing.ts';

const WARM_UP = 200;
/** Runs of one service in a row, so that it has the caches of the processor as a service that runs alone does. */
const BLOCK = 250;
const BLOCK_WARM_UP = 25;
const CLIENTS = 16;
const CONTEXTS = 8;
const SERVERS = [1, 2, 4];
const ON_POSTGRES = 'PostgreSQL by a Unix socket';

/** Measures runs with PostgreSQL, and how many runs a second several servers of one database execute. */
export const servers: Measurement = {
  name: 'servers',
  title: 'servers on PostgreSQL',
  fullOnly: true,
  async measure(bench) {
    await using database = await BenchDatabase.start();
    const rows: Row[] = [];
    for (const waitsForDisk of [false, true]) rows.push(await measureRecords(bench, database, waitsForDisk));
    rows.push(...(await measureHotRuns(bench, database)));
    for (const count of SERVERS) rows.push(await measureThroughput(bench, database, count));
    return { rows };
  },
};

async function measureRecords(bench: Bench, database: BenchDatabase, waitsForDisk: boolean): Promise<Row> {
  const db = await openDatabase(await database.create(`records_${waitsForDisk}`, { waitsForDisk }));
  try {
    await migrate(db);
    const records = new IdempotencyRepository(db);
    const pair = () => timed(() => claimAndComplete(records));
    await repeat(WARM_UP, pair);
    return {
      what: `idempotency record, claimed and completed${waitsForDisk ? ', on the disk' : ''}`,
      unit: 'ms',
      subject: figuresOf(await repeat(bench.rounds(3000, 500), pair)),
      ...(!waitsForDisk && { targets: [{ atMost: 0.5 }] }),
      note: `${ON_POSTGRES}; ${WARM_UP} to warm up`,
    };
  } finally {
    await db.destroy();
  }
}

async function measureHotRuns(bench: Bench, database: BenchDatabase): Promise<Row[]> {
  const urlOf = (name: string, waitsForDisk: boolean) => database.create(name, { waitsForDisk });
  const subjects = {
    sqlite: await bench.subject(),
    postgres: await Subject.open({ CLOCHE_DATABASE_URL: await urlOf('hot', false) }),
    onDisk: await Subject.open({ CLOCHE_DATABASE_URL: await urlOf('hot_on_disk', true) }),
  };
  try {
    const runIn = async (subject: Subject) => {
      const id = await subject.createReady();
      const run = () => timed(() => subject.run(id, '1+1'));
      await repeat(WARM_UP, run);
      return async () => {
        await repeat(BLOCK_WARM_UP, run);
        return repeat(BLOCK, run);
      };
    };
    const acts = {
      sqlite: await runIn(subjects.sqlite),
      postgres: await runIn(subjects.postgres),
      onDisk: await runIn(subjects.onDisk),
    };
    const blocks = await inTurns(bench.rounds(8, 2), acts);
    const unit = 'ms';
    const peer = beside('SQLite', blocks.sqlite.flat());
    const note = `${WARM_UP} of each to warm up; services of their own, measured in turns of ${BLOCK} runs`;
    const what = `hot run of \`1+1\`, ${ON_POSTGRES}`;
    return [
      { what, unit, subject: figuresOf(blocks.postgres.flat()), targets: [{ atMost: 1.8 }], peer, note },
      { what: `${what}, on the disk`, unit, subject: figuresOf(blocks.onDisk.flat()), peer, note },
    ];
  } finally {
    await Promise.all([subjects.postgres.close(), subjects.onDisk.close()]);
  }
}

async function measureThroughput(bench: Bench, database: BenchDatabase, count: number): Promise<Row> {
  const url = await database.create(`throughput_${count}`, { waitsForDisk: false });
  const subject = await Subject.open({ CLOCHE_DATABASE_URL: url, CLOCHE_SERVERS: String(count) });
  try {
    const id = await subject.createReady();
    const contextIds = await Promise.all(Array.from({ length: CONTEXTS }, () => subject.createContext(id, 'python')));
    const run = (client: number) => subject.run(id, '1+1', { contextId: contextIds[client % CONTEXTS] });
    await perSecond(CLIENTS, 1000, run);
    const lastMs = bench.rounds(3000, 1000);
    const values = await repeat(bench.rounds(5, 2), () => perSecond(CLIENTS, lastMs, run));
    const what = count === 1 ? '1 server' : `${count} servers behind the load balancer`;
    return {
      what: `hot runs a second, ${what}, ${CLIENTS} clients, ${CONTEXTS} contexts`,
      unit: '/s',
      subject: figuresOf(values),
      note: 'a second to warm up; commits do not wait for the disk; clients, services and PostgreSQL share the processors',
    };
  } finally {
    await subject.close();
  }
}
