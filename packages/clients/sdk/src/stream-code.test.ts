import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { drop, eventStream, failing, frame, sampleRun, scriptedSandbox } from '../testing/index.ts';
import type { CodeRunEvent } from './index.ts';

async function collect(events: AsyncIterable<CodeRunEvent>): Promise<CodeRunEvent[]> {
  const all: CodeRunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('a stream', () => {
  it('a stream survives frames and characters that are split across chunks', async () => {
    const bytes = Buffer.from(frame('stdout', 'zażółć 🫙\n') + frame('complete', sampleRun({ stdout: 'zażółć 🫙\n' })));
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    const { server, sandbox } = await scriptedSandbox([eventStream([': comment\n\n', ...single])]);
    await using _ = server;
    const events = await collect(sandbox.stream('…'));
    assert.deepEqual(events[0], { type: 'stdout', data: 'zażółć 🫙\n' });
    assert.deepEqual(
      events.map(({ type }) => type),
      ['stdout', 'complete'],
    );
  });

  it('a stream yields an event before the next one is sent', async () => {
    const gate = Promise.withResolvers<void>();
    const { server, sandbox } = await scriptedSandbox([
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(frame('stdout', 'first'));
        await gate.promise;
        response.end(frame('complete', sampleRun()));
      },
    ]);
    await using _ = server;
    const seen: string[] = [];
    for await (const { type } of sandbox.stream('…')) {
      seen.push(type);
      gate.resolve();
    }
    assert.deepEqual(seen, ['stdout', 'complete']);
  });

  it('a stream disconnects when the loop is left and when the signal aborts', async () => {
    const endless = eventStream([frame('stdout', 'a')], { end: false });
    const { server, sandbox } = await scriptedSandbox([endless, endless]);
    await using _ = server;
    for await (const _event of sandbox.stream('…')) break;
    await server.requests[1]?.disconnected;

    const controller = new AbortController();
    const reason = new Error('stop');
    const consumed = collect(sandbox.stream('…', { signal: controller.signal }));
    await assert.rejects(
      Promise.race([
        consumed,
        (async () => {
          await eventually(() => server.requests.length === 3, { because: 'the code is run' });
          controller.abort(reason);
          return consumed;
        })(),
      ]),
      reason,
    );
    await server.requests[2]?.disconnected;
  });

  it('a stream is opened again while it cannot be opened, and never once it was', async () => {
    const opens = await scriptedSandbox([failing('unavailable'), drop, eventStream([frame('complete', sampleRun())])]);
    await using _ = opens.server;
    assert.equal((await collect(opens.sandbox.stream('…'))).length, 1);
    assert.equal(new Set(opens.server.requests.slice(1).map(({ headers }) => headers['idempotency-key'])).size, 1);

    const breaks = await scriptedSandbox([
      async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(frame('stdout', 'a'), () => response.socket?.destroy());
      },
    ]);
    await using __ = breaks.server;
    await assert.rejects(collect(breaks.sandbox.stream('…')), { code: 'stream_interrupted' });
    assert.equal(breaks.server.requests.length, 2);
  });

  it('a stream throws an error of the platform, and yields an error of the code even when it has a platform name', async () => {
    const platform = { name: 'unavailable', message: 'The service is draining.' };
    const { server, sandbox } = await scriptedSandbox([
      eventStream([frame('stdout', 'a'), frame('error', platform)]),
      eventStream([frame('error', { name: 'unavailable', message: 'mine' }), frame('complete', sampleRun())]),
    ]);
    await using _ = server;
    const seen: string[] = [];
    const failed = async () => {
      for await (const { type } of sandbox.stream('…')) seen.push(type);
    };
    await assert.rejects(failed, { code: 'unavailable', message: 'The service is draining.' });
    assert.deepEqual(seen, ['stdout']);
    assert.deepEqual(
      (await collect(sandbox.stream('…'))).map(({ type }) => type),
      ['error', 'complete'],
    );
  });

  it('a stream does not count the time that its reader takes against the deadline', async () => {
    const frames = [frame('stdout', 'a'), frame('complete', sampleRun())];
    // The time limit is the sum of both timeouts; the loop below takes longer.
    const { server, sandbox } = await scriptedSandbox([eventStream(frames)], { timeoutMs: 400 });
    await using _ = server;
    const seen: string[] = [];
    for await (const { type } of sandbox.stream('…', { timeoutMs: 100 })) {
      seen.push(type);
      await new Promise((resolve) => setTimeout(resolve, 600));
    }
    assert.deepEqual(seen, ['stdout', 'complete']);
  });

  it('ends with deadline_exceeded when the service falls silent', async () => {
    const { server, sandbox } = await scriptedSandbox([eventStream([frame('stdout', 'a')], { end: false })], {
      timeoutMs: 400,
    });
    await using _ = server;
    await assert.rejects(collect(sandbox.stream('…', { timeoutMs: 100 })), { code: 'deadline_exceeded' });
    await server.requests[1]?.disconnected;
  });
});
