import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { drop, eventStream, failing, json, type Reply, sampleSandbox, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

const at = '2026-01-01T00:00:00.000Z';
const event = (seq: number, type = 'sandbox.ready') => ({
  seq,
  id: `evt_${seq}`,
  type,
  at,
  orgId: 'org_1',
  projectId: 'prj_1',
  data: { sandbox: sampleSandbox() },
});
const framed = (...args: Parameters<typeof event>) => {
  const { seq, type, ...rest } = event(...args);
  return `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ seq, type, ...rest })}\n\n`;
};
const failure = 'event: error\ndata: {"type":"error","data":{"name":"unavailable","message":"stopping"}}\n\n';

async function startService(...replies: Reply[]) {
  const server = await startScriptedServer(replies);
  const { events } = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1 });
  const paths = () => server.requests.map(({ path }) => decodeURIComponent(path));
  return { events, paths, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

describe('events', () => {
  it('events are listed by what they are filtered by', async () => {
    const page = { data: [event(8)], nextSeq: 8, hasMore: false };
    await using service = await startService(json(200, page), json(200, page));
    const options = { afterSeq: 7, limit: 2, types: ['sandbox.*', 'artifact.created'], projectId: 'prj_1' } as const;
    assert.deepEqual(await service.events.list(options), page);
    await service.events.list({ types: [] });
    const [path = '', bare] = service.paths();
    const { pathname, searchParams } = new URL(path, 'http://x');
    assert.equal(pathname, '/v1/events');
    assert.deepEqual(Object.fromEntries(searchParams), {
      afterSeq: '7',
      limit: '2',
      types: 'sandbox.*,artifact.created',
      projectId: 'prj_1',
    });
    assert.equal(bare, '/v1/events');
  });

  it('events are followed over interruptions, each once', async () => {
    await using service = await startService(
      eventStream([framed(8), framed(9)]),
      drop,
      eventStream([': keep-alive\n\n', framed(10), failure]),
      failing('unavailable'),
      eventStream([framed(11)], { end: false }),
    );
    const seqs: number[] = [];
    for await (const { seq } of service.events.stream({ afterSeq: 7, types: ['sandbox.*'] })) {
      seqs.push(seq);
      if (seq === 11) break;
    }
    assert.deepEqual(seqs, [8, 9, 10, 11]);
    assert.deepEqual(
      service.paths().map((path) => Object.fromEntries(new URL(path, 'http://x').searchParams)),
      [7, 9, 9, 10, 10].map((afterSeq) => ({ types: 'sandbox.*', afterSeq: String(afterSeq) })),
    );
  });

  it('end with the error of the service when that is final', async () => {
    await using service = await startService(failing('forbidden'));
    await assert.rejects(service.events.stream().next(), { code: 'forbidden' });
  });

  it('events end when the caller aborts', async () => {
    await using service = await startService(eventStream([framed(1)], { end: false }));
    const abort = new AbortController();
    const events = service.events.stream({ signal: abort.signal });
    await events.next();
    const next = events.next();
    abort.abort(new Error('enough'));
    await assert.rejects(next, /enough/);
  });

  it('events have a last number, from which new ones are followed', async () => {
    await using service = await startService(json(200, { data: [], nextSeq: 41, hasMore: false }));
    assert.equal(await service.events.lastSeq(), 41);
    assert.match(service.paths()[0] ?? '', /afterSeq=9007199254740991/);
  });
});
