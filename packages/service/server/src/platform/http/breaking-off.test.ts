/** Tests clients that disconnect early: an `error` event without a listener would end the server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { operations, type Sandbox } from '@cloche/contract';
import { UnheardFaults } from '@cloche/testkit/fuzz';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { route } from './route.ts';

const TIMES = 40;

let service: TestService;
const faults = new UnheardFaults();
before(async () => {
  service = await startTestService([
    route(operations.createSandbox, async () => ({ sandbox: {} as Sandbox })),
    route(operations.listSandboxes, async () => ({ data: [], hasMore: false })),
  ]);
});
after(() => {
  faults[Symbol.dispose]();
  return service.close();
});

const HOST = 'host: a:1\r\n';
const requests: Record<string, string> = {
  'a CONNECT': `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`,
  'a CONNECT and what it was for': `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n${'x'.repeat(100_000)}`,
  'an upgrade': `GET /v1/sandboxes HTTP/1.1\r\n${HOST}connection: upgrade\r\nupgrade: websocket\r\n\r\n`,
  'an expectation': `POST /v1/sandboxes HTTP/1.1\r\n${HOST}expect: nothing\r\ncontent-length: 9\r\n\r\n`,
  'a body that does not come': `POST /v1/sandboxes HTTP/1.1\r\n${HOST}content-length: 9\r\n\r\n{`,
  'no HTTP': 'hello\r\n\r\n',
  'a list, many times': `GET /v1/sandboxes HTTP/1.1\r\n${HOST}\r\n`.repeat(50),
};

for (const [title, bytes] of Object.entries(requests)) {
  test(`a client that breaks off after ${title} leaves nothing`, async () => {
    for (let time = 0; time < TIMES; time++) {
      const socket = connect(Number(new URL(service.url).port), '127.0.0.1').on('error', () => undefined);
      await once(socket, 'connect');
      socket.write(bytes);
      if (time % 2 === 1) await delay(time % 5);
      socket.resetAndDestroy();
    }
    assert.equal((await service.call('GET', '/v1/sandboxes')).status, 200);
    assert.deepEqual(faults.take(), []);
  });
}
