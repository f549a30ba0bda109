import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DecisionPage } from '@cloche/protocol';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { Value } from 'typebox/value';
import { DecisionLog, type DecisionRecord } from './decision-log.ts';
import { LINES_A_WINDOW } from './line-budget.ts';
import { RecentDecisions } from './recent-decisions.ts';

function makeLog() {
  const lines: (DecisionRecord & { count?: number })[] = [];
  const registry = new Registry();
  const log = pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line)) });
  return { lines, registry, decisions: new DecisionLog(log, registry) };
}

const denied = (sandboxId: string, host = 'denied.example'): DecisionRecord => ({
  ...{ sandboxId, host, port: 443, protocol: 'https', verdict: 'denied', reason: 'policy' },
});

describe('a decision', () => {
  test('a decision is a line in the log, a count, and there for the operator', async () => {
    const { lines, registry, decisions } = makeLog();
    decisions.record({ ...denied('sbx_a'), bytesUp: 3, bytesDown: 5 });
    assert.deepEqual(
      lines.map(({ sandboxId, host, verdict }) => [sandboxId, host, verdict]),
      [['sbx_a', 'denied.example', 'denied']],
    );
    assert.match(await registry.metrics(), /cloche_egress_decisions_total\{[^}]*verdict="denied"[^}]*\} 1/);
    const page = Value.Parse(DecisionPage, decisions.recent.read({}));
    assert.deepEqual(
      page.decisions.map(({ seq, host, verdict, bytesDown }) => [seq, host, verdict, bytesDown]),
      [[1, 'denied.example', 'denied', 5]],
    );
  });

  test('a decision of a sandbox that makes too many is counted, and how many there were is a line of its own', async () => {
    const { lines, registry, decisions } = makeLog();
    for (let n = 0; n < LINES_A_WINDOW + 50; n++) decisions.record(denied('sbx_loud'));
    decisions.record(denied('sbx_quiet'));
    assert.equal(lines.filter(({ sandboxId }) => sandboxId === 'sbx_loud').length, LINES_A_WINDOW);
    assert.equal(lines.filter(({ sandboxId }) => sandboxId === 'sbx_quiet').length, 1);
    assert.match(await registry.metrics(), new RegExp(`decisions_total\\{[^}]*\\} ${LINES_A_WINDOW + 51}`));
    assert.match(await registry.metrics(), /cloche_egress_log_lines_suppressed_total 50/);
    decisions.endWindow();
    assert.deepEqual(
      [lines.at(-1)?.verdict, lines.at(-1)?.sandboxId, lines.at(-1)?.count],
      ['suppressed', 'sbx_loud', 50],
    );
    decisions.record(denied('sbx_loud'));
    assert.equal(lines.at(-1)?.verdict, 'denied');
  });

  test('a decision is kept with as much of a host as a name can have', () => {
    const { decisions } = makeLog();
    decisions.record(denied('sbx_a', 'x'.repeat(10_000)));
    assert.ok(Value.Check(DecisionPage, decisions.recent.read({})));
  });
});

describe('recent decisions', () => {
  const add = (recent: RecentDecisions, sandboxId: string) => recent.add({ at: '', sandboxId, verdict: 'permitted' });

  test('recent decisions are read on from where one was, of one sandbox or of all', () => {
    const recent = new RecentDecisions();
    for (const id of ['sbx_a', 'sbx_b', 'sbx_a']) add(recent, id);
    const seqs = (range: object) => recent.read(range).decisions.map(({ seq }) => seq);
    assert.deepEqual(
      [seqs({}), seqs({ afterSeq: 1 }), seqs({ sandboxId: 'sbx_a' })],
      [
        [1, 2, 3],
        [2, 3],
        [1, 3],
      ],
    );
    assert.equal(recent.read({ sandboxId: 'sbx_b' }).nextSeq, 3);
  });

  test('recent decisions are bounded, and say how many are gone', () => {
    const recent = new RecentDecisions(10);
    for (let n = 0; n < 1000; n++) add(recent, 'sbx_a');
    const { decisions, missed } = recent.read({ afterSeq: 5 });
    assert.deepEqual([decisions.length, decisions[0]?.seq, missed], [10, 991, 985]);
  });

  test('come in pages', () => {
    const recent = new RecentDecisions();
    for (let n = 0; n < 700; n++) add(recent, 'sbx_a');
    const first = recent.read({});
    const second = recent.read({ afterSeq: first.nextSeq });
    assert.deepEqual([first.hasMore, second.hasMore], [true, false]);
    assert.equal(first.decisions.length + second.decisions.length, 700);
  });

  test('recent decisions are all new to a reader that has read further with an earlier egress', () => {
    const recent = new RecentDecisions();
    add(recent, 'sbx_a');
    assert.equal(recent.read({ afterSeq: 99 }).decisions.length, 1);
  });

  test('recent decisions are waited for, by sandbox, and no longer than asked', async () => {
    const recent = new RecentDecisions();
    let over = false;
    const waiting = recent.wait({ sandboxId: 'sbx_b' }, new AbortController().signal).then(() => {
      over = true;
    });
    add(recent, 'sbx_a');
    await new Promise(setImmediate);
    assert.equal(over, false);
    add(recent, 'sbx_b');
    await waiting;
    await recent.wait({ sandboxId: 'sbx_c' }, AbortSignal.abort());
  });
});
