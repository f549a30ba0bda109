import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { Changes } from '../base/changes.ts';
import { ENTRY_OVERHEAD_BYTES, type LogEntry, SequenceLog } from './sequence-log.ts';

const output = (data: string, type = 'stdout') => ({ type, data, outputBytes: Buffer.byteLength(data) });

/** Returns changes of which other servers tell nothing, so that a reader looks again by itself. */
const lookingAgain = () => new Changes<string>({ tell: () => undefined, lookAgainMs: 20 });

async function openLog(keptBytes = 1000) {
  const world = await openSandboxes();
  const log = new SequenceLog(world, { keptBytes, appended: lookingAgain() });
  return { world, log, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

async function all(log: SequenceLog, id: string, afterSeq = 0): Promise<LogEntry[]> {
  const entries: LogEntry[] = [];
  for await (const entry of log.follow(id, afterSeq, AbortSignal.timeout(60_000))) entries.push(entry);
  return entries;
}

describe('a log', () => {
  it('a log numbers its entries from 1 and is read in pages that are continued without gap or repetition', async () => {
    await using opened = await openLog();
    const { log } = opened;
    await log.append('a', [output('1'), output('2', 'stderr')]);
    await log.append('b', [output('other')]);
    await log.append('a', [{ type: 'state', data: { status: 'running' } }]);
    const first = await log.read('a', 0, 2);
    assert.deepEqual(
      first.data.map(({ seq, type, data }) => [seq, type, data]),
      [
        [1, 'stdout', '1'],
        [2, 'stderr', '2'],
      ],
    );
    assert.deepEqual([first.nextSeq, first.hasMore], [2, true]);
    const rest = await log.read('a', first.nextSeq, 2);
    assert.deepEqual(
      [rest.data.map(({ data }) => data), rest.nextSeq, rest.hasMore],
      [[{ status: 'running' }], 3, false],
    );
    assert.deepEqual(await log.read('a', 3, 2), { data: [], nextSeq: 3, hasMore: false });
    assert.deepEqual(await log.read('none', 0, 2), { data: [], nextSeq: 0, hasMore: false });
  });

  it('a log keeps NUL and characters outside of Unicode, which databases refuse', async () => {
    await using opened = await openLog();
    const text = 'a\0b\ud800c';
    await opened.log.append('a', [output(text)]);
    assert.equal((await opened.log.read('a', 0, 1)).data[0]?.data, text);
  });

  it('appends each part of its source once, whoever copies it', async () => {
    await using opened = await openLog();
    const { log } = opened;
    const copy = (text: string, after: number, upTo: number) =>
      log.append('a', [output(text)], { source: { after, upTo } });
    assert.equal(await copy('1-2', 0, 2), true);
    assert.equal(await copy('1-3', 0, 3), false);
    assert.equal(await copy('2-4', 1, 4), false);
    assert.equal(await copy('3-4', 2, 4), true);
    assert.equal(await log.sourceSeq('a'), 4);
    await log.append('a', [{ type: 'state', data: {} }]);
    assert.equal(await log.sourceSeq('a'), 4);
    assert.deepEqual(
      (await log.read('a', 0, 9)).data.map(({ data }) => data),
      ['1-2', '3-4', {}],
    );
  });

  it('a log that has ended gets no more entries, in a transaction or from its source either', async () => {
    await using opened = await openLog();
    const { log, world } = opened;
    await log.append('a', [output('1')], { source: { after: 0, upTo: 1 } });
    await world.transactions.run(async (tx) => {
      await log.append('a', [{ type: 'state', data: 'succeeded' }], { tx });
      await log.close('a', tx);
    });
    const late = [output('2')];
    assert.equal(await log.append('a', late), false);
    assert.equal(await log.append('a', late, { source: { after: 1, upTo: 2 } }), false);
    assert.equal(await world.transactions.run((tx) => log.append('a', late, { tx })), false);
    assert.deepEqual(
      (await all(log, 'a')).map(({ data }) => data),
      ['1', 'succeeded'],
    );
  });

  it('a log limits a page by bytes too, and continues it', async () => {
    await using opened = await openLog(Number.MAX_SAFE_INTEGER);
    const piece = 'x'.repeat(64 * 1024);
    for (let round = 0; round < 4; round += 1) await opened.log.append('a', Array(50).fill(output(piece)));
    let pages = 0;
    let seen = 0;
    for (let after = 0, more = true; more; pages += 1) {
      const page = await opened.log.read('a', after, 1000);
      assert.ok(page.data.length * piece.length < 16 * 1024 * 1024);
      seen += page.data.length;
      [after, more] = [page.nextSeq, page.hasMore];
    }
    assert.deepEqual([seen, pages > 1], [200, true]);
  });

  it('a log limits a page by what its entries are as JSON, however large they are', async () => {
    await using opened = await openLog(Number.MAX_SAFE_INTEGER);
    const { log } = opened;
    const large = '\u0001'.repeat(1024 * 1024);
    for (let index = 0; index < 4; index += 1) await log.append('a', [output(large)]);
    for (let after = 0; after < 4; after += 1) {
      const { data, hasMore } = await log.read('a', after, 1_000);
      assert.deepEqual([data.map(({ seq }) => seq), hasMore], [[after + 1], after < 3]);
    }
  });
});

describe('a log beyond its limit', () => {
  it('a log beyond its limit drops its oldest output alone, and says once how much', async () => {
    await using opened = await openLog(10 + 2 * ENTRY_OVERHEAD_BYTES);
    const { log } = opened;
    await log.append('a', [{ type: 'state', data: 'first' }]);
    for (const text of ['aaaa', 'bbbb', 'cccc']) await log.append('a', [output(text)]);
    const shown = async (after: number) =>
      (await log.read('a', after, 100)).data.map(({ seq, type, data }) => [seq, type, data]);
    const marker = (bytes: number) => `[cloche: ${bytes} bytes dropped from the start of the output]\n`;
    const kept = [
      [3, 'stdout', 'bbbb'],
      [4, 'stdout', 'cccc'],
    ];
    assert.deepEqual(await shown(0), [[1, 'state', 'first'], [2, 'system', marker(4)], ...kept]);
    assert.deepEqual(await shown(2), kept);
    await log.append('a', [output('dddddd'), output('eeee')]);
    assert.deepEqual(await shown(0), [
      [1, 'state', 'first'],
      [4, 'system', marker(12)],
      [5, 'stdout', 'dddddd'],
      [6, 'stdout', 'eeee'],
    ]);
    // More than the limit at once leaves the marker alone.
    await log.append('a', [output('f'.repeat(11 + ENTRY_OVERHEAD_BYTES))]);
    assert.deepEqual(await shown(1), [[7, 'system', marker(33 + ENTRY_OVERHEAD_BYTES)]]);
  });

  it('a log beyond its limit has a bounded number of entries, however small or empty they are, whatever they are called', async () => {
    const most = 50;
    await using opened = await openLog(most * (ENTRY_OVERHEAD_BYTES + 1));
    for (const [id, entry] of [
      ['small', output('x')],
      ['empty', output('')],
      ['system', output('', 'system')],
    ] as const) {
      for (let round = 0; round < 5; round += 1) await opened.log.append(id, Array(most).fill(entry));
      const { data } = await opened.log.read(id, 0, 1_000);
      assert.ok(data.length <= most + 1, `${data.length} entries of ${id}`);
      assert.equal(data.at(-1)?.seq, 5 * most);
    }
  });
});

describe('following a log', () => {
  it('following a log gives every entry once in order while they are written, also to a reader that resumes, and ends with the log', async () => {
    await using opened = await openLog(Number.MAX_SAFE_INTEGER);
    const { log, world } = opened;
    const other = new SequenceLog(world, { keptBytes: Number.MAX_SAFE_INTEGER, appended: lookingAgain() });
    await log.append('a', [output('0')]);
    const readers = [all(log, 'a'), all(other, 'a'), all(log, 'a', 100)];
    for (let index = 1; index < 300; index += 1) await (index % 2 ? log : other).append('a', [output(String(index))]);
    await log.close('a');
    const [first, second, resumed] = await Promise.all(readers);
    assert.deepEqual(
      first?.map(({ seq, data }) => [seq, data]),
      Array.from({ length: 300 }, (_, i) => [i + 1, String(i)]),
    );
    assert.deepEqual(second, first);
    assert.deepEqual(resumed, first?.slice(100));
  });

  it('following a log ends when its signal aborts', async () => {
    await using opened = await openLog();
    await opened.log.append('a', [output('0')]);
    const aborting = new AbortController();
    const reading = opened.log.follow('a', 0, aborting.signal);
    assert.equal((await reading.next()).value?.data, '0');
    const next = reading.next();
    aborting.abort(new Error('enough'));
    await assert.rejects(next, /enough/);
  });
});

it('logs are forgotten by the time of their end, open ones never', async () => {
  await using opened = await openLog();
  const { log, world } = opened;
  const ended = async (id: string) => {
    await log.append(id, Array(1200).fill(output('x')));
    await log.close(id);
  };
  await ended('old');
  await log.append('open', [output('x')]);
  world.clock.advance(1000);
  await ended('new');
  assert.equal(await log.forget(world.clock.now()), 1);
  assert.deepEqual((await log.read('old', 0, 1)).data, []);
  assert.equal((await log.read('new', 0, 1)).data.length, 1);
  assert.equal((await log.read('open', 0, 1)).data.length, 1);
  const left = await world.db.selectFrom('sequence_log_entries').select('log_id').distinct().execute();
  assert.deepEqual(left.map(({ log_id }) => log_id).sort(), ['new', 'open']);
});
