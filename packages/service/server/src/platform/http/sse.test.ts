import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { ClientGoneError } from './in-flight.ts';
import { type SseTimes, SseWriter } from './sse.ts';

async function withStream(
  times: SseTimes,
  serve: (writer: SseWriter) => Promise<void>,
  receive: (response: IncomingMessage) => Promise<void>,
): Promise<void> {
  const served = Promise.withResolvers<void>();
  const server = createServer((_request, response: ServerResponse) => {
    serve(new SseWriter(response, {}, times)).then(served.resolve, served.reject);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const request = get({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', agent: false });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => undefined);
    await Promise.all([served.promise, receive(response)]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe('SseWriter', () => {
  it('SseWriter keeps a silent connection alive with comments', async () => {
    const heard = Promise.withResolvers<void>();
    await withStream(
      { keepAliveMs: 5, stallMs: 10_000 },
      async (writer) => {
        await heard.promise;
        writer.end();
      },
      async (response) => {
        const [chunk] = await once(response.setEncoding('utf8'), 'data');
        assert.match(chunk, /^: keep-alive\n\n/);
        heard.resolve();
      },
    );
  });

  it('SseWriter cuts off a client that takes nothing', async () => {
    const frame = { type: 'stdout', data: 'x'.repeat(1 << 20) };
    await withStream(
      { keepAliveMs: 60_000, stallMs: 50 },
      (writer) =>
        assert.rejects(async () => {
          for (let sent = 0; sent < 1000; sent++) await writer.send(frame);
        }, ClientGoneError),
      async (response) => {
        response.pause();
      },
    );
  });
});
