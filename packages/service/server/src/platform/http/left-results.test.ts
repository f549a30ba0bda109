import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readlinkSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type CodeRun, type CodeRunEvent, operations } from '@cloche/contract';
import { exposedCollector } from '@cloche/node-support';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { route, streamRoute } from './route.ts';

/** Turns of the event loop after which a client leaves: before, while and after its result is opened. */
const TURNS = 25;
/** A result that is stored in a file and is sent in several pieces. */
const run = { stdout: randomBytes(200_000).toString('hex') } as unknown as CodeRun;
const body = '{"code":"1","language":"python"}';
const path = '/v1/sandboxes/sbx_1/code/runs';
const collect = exposedCollector();

let service: TestService;

before(async () => {
  service = await startTestService([
    route(operations.runCode, async () => ({ run })),
    route(operations.listSandboxes, async () => ({ data: [run as never], hasMore: false })),
    streamRoute(operations.streamCode, async () => result()),
  ]);
});
after(() => service.close());

async function* result(): AsyncGenerator<CodeRunEvent> {
  yield { type: 'complete', data: run };
}

/** Sends a request and resets its connection after `turns` turns of the event loop. */
async function leave(request: string, turns: number): Promise<void> {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  socket.write(request);
  for (let turn = 0; turn < turns; turn += 1) await setImmediate();
  socket.resetAndDestroy();
}

async function requestOf(method: string, url: string, idempotencyKey = ''): Promise<string> {
  const fields = { host: 'x', authorization: `Bearer ${await service.key()}`, 'content-type': 'application/json' };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  const content =
    method === 'GET' ? '\r\n' : `idempotency-key: ${idempotencyKey}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  return `${method} ${url} HTTP/1.1\r\n${head.join('')}${content}`;
}

/** Returns the files of results that this process has open. */
function openResults(): string[] {
  const places = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The descriptor of this listing.
      return '';
    }
  });
  return places.filter((place) => place.startsWith(service.resultsFolder));
}

/** If the collector finds an open file handle, Node.js throws an uncaught exception, which fails this file. */
async function requireNothingOpen(): Promise<void> {
  await eventually(() => service.inFlight.size === 0, { because: 'all requests have ended' });
  await eventually(() => openResults().length === 0, { because: 'no result is open' });
  for (let round = 0; round < 5; round += 1) {
    collect();
    await setImmediate();
  }
}

describe('a stored result whose file is gone', () => {
  it('a stored result whose file is gone is an error, which does not look like a result', async () => {
    const call = (url: string) => service.call('POST', url, { body: JSON.parse(body), idempotencyKey: 'gone' });
    for (const url of [path, `${path}/stream`]) await call(url);
    for (const folder of readdirSync(service.resultsFolder))
      rmSync(join(service.resultsFolder, folder), { recursive: true });
    const { status, body: answered } = await call(path);
    assert.deepEqual([status, answered.error.code], [500, 'internal']);
    const { text } = await call(`${path}/stream`);
    assert.match(text, /^event: error\ndata: {"type":"error","data":{"name":"internal",.*}}\n\n$/);
  });
});

describe('the stored result of a client that leaves', () => {
  for (const [what, url] of [
    ['a stream', `${path}/stream`],
    ['an answer', path],
  ] as const) {
    it(`the stored result of a client that leaves is closed at each moment of the first execution of ${what}`, async () => {
      for (let turns = 0; turns < TURNS; turns += 1) await leave(await requestOf('POST', url, `first-${turns}`), turns);
      await requireNothingOpen();
    });

    it(`the stored result of a client that leaves is closed at each moment of a replay of ${what}`, async () => {
      await service.call('POST', url, { body: JSON.parse(body), idempotencyKey: 'replay' });
      const request = await requestOf('POST', url, 'replay');
      for (let turns = 0; turns < TURNS; turns += 1) await leave(request, turns);
      await requireNothingOpen();
    });
  }

  it('the stored result of a client that leaves is closed, and its file removed, at each moment of an answer that is not recorded', async () => {
    const request = await requestOf('GET', '/v1/sandboxes');
    for (let turns = 0; turns < TURNS; turns += 1) await leave(request, turns);
    await requireNothingOpen();
  });
});
