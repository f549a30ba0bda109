import assert from 'node:assert/strict';
import { it } from 'node:test';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

it('audit events are read page by page, also over an empty page, with the same filter', async () => {
  const event = (seq: number) => ({ seq, action: 'sandbox.created' });
  const pages = [
    { data: [event(1)], nextSeq: 1, hasMore: true },
    { data: [], nextSeq: 1000, hasMore: true },
    { data: [event(1001)], nextSeq: 1001, hasMore: false },
  ];
  await using server = await startScriptedServer(pages.map((page) => json(200, page)));
  const { auditEvents } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  const from = new Date('2026-01-01T00:00:00Z');
  const seqs: number[] = [];
  for await (const { seq } of auditEvents.all({ actor: 'key_1', from })) seqs.push(seq);
  assert.deepEqual(seqs, [1, 1001]);
  assert.deepEqual(
    server.requests.map(({ path }) => Object.fromEntries(new URL(path, 'http://x').searchParams)),
    ['0', '1', '1000'].map((afterSeq) => ({ afterSeq, actor: 'key_1', from: from.toISOString() })),
  );
});
