import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { after, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { eventually } from '@cloche/testkit/eventually';
import { systemClock } from '../base/clock.ts';
import { randomIds } from '../base/id-source.ts';
import { ResultFiles } from '../idempotency/result-files.ts';
import { SpooledJson, wholeList } from './spooled-list.ts';

const ENTRIES = 5_000;
const LISTS = 16;
const MEBIBYTE = 1024 * 1024;

const folder = mkdtempSync(join(tmpdir(), 'cloche-lists-'));
after(() => rmSync(folder, { recursive: true }));
const files = new ResultFiles(folder, systemClock, randomIds);
const spool = (pieces: AsyncIterable<string>) => files.spool(pieces);
const stored = () => readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith('.zst'));

/** An entry of some 3,300 bytes: 5,000 of them are about as much as a listing may have. */
const entry = (index: number): { path: string; sizeBytes: number } =>
  // Parsed, as an agent's answer is: V8 keeps joined texts as shared parts.
  JSON.parse(`{"path":"/workspace/${String(index).padStart(3_250, 'x')}","sizeBytes":${index}}`);

async function* entries(count: number, before: (index: number) => unknown = () => undefined) {
  for (let index = 0; index < count; index += 1) {
    await before(index);
    yield entry(index);
  }
}

describe('a whole list', () => {
  it('a whole list that is small is answered as it is', async () => {
    assert.deepEqual(await wholeList(entries(3), spool), { data: [0, 1, 2].map(entry), hasMore: false });
    assert.deepEqual(await wholeList(entries(0), spool), { data: [], hasMore: false });
  });

  it('a whole list that is large comes from a file with all entries in order, and the file is removed', async () => {
    const answer = await wholeList(entries(500), spool);
    assert.ok(answer instanceof SpooledJson);
    const expected = { data: Array.from({ length: 500 }, (_, index) => entry(index)), hasMore: false };
    assert.equal(answer.bytes, Buffer.byteLength(JSON.stringify(expected)));
    assert.deepEqual(await json(answer.json), expected);
    await eventually(() => stored().length === 0, { because: 'their files are removed' });
  });

  it('a whole list whose source fails is an error, however much has arrived, and leaves no file', async () => {
    for (const at of [0, 10, 400]) {
      const failing = entries(500, (index) => index === at && Promise.reject(new Error('it broke')));
      await assert.rejects(wholeList(failing, spool), /it broke/);
    }
    assert.deepEqual(stored(), []);
  });

  it('a whole list takes less than 2 MiB, also while many are under way', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const used = async () => {
      collect();
      // Buffers are freed after the first collection.
      await setTimeout(50);
      collect();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const grown = async (gather: (items: AsyncIterable<unknown>) => Promise<unknown>) => {
      const before = await used();
      const [allThere, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let there = 0;
      const wait = (index: number) => {
        if (index !== ENTRIES - 1) return;
        there += 1;
        if (there === LISTS) allThere.resolve();
        return go.promise;
      };
      const lists = Array.from({ length: LISTS }, () => gather(entries(ENTRIES, wait)));
      await allThere.promise;
      const growth = (await used()) - before;
      go.resolve();
      return { growth, lists: await Promise.all(lists) };
    };
    const spooled = await grown((items) => wholeList(items, spool));
    for (const answer of spooled.lists) (answer as SpooledJson).json.destroy();
    assert.ok(spooled.growth < LISTS * 2 * MEBIBYTE, `${spooled.growth} bytes`);
    // The control: lists that are gathered in memory take several times as much.
    const gathered = await grown((items) => Array.fromAsync(items));
    assert.ok(gathered.growth > LISTS * 4 * MEBIBYTE, `${gathered.growth} bytes`);
    await eventually(() => stored().length === 0, { because: 'their files are removed' });
  });
});
