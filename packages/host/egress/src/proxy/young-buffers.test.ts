import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { type Duplex, pipeline, Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { EgressRig } from '../../testing/egress-rig.ts';
import { httpsServer, portOf } from '../../testing/test-servers.ts';

const BYTES = 192 * 1024 * 1024;
/** Most collections of the whole heap that are accepted. V8 alone would do at least one for each 64 MB. */
const MAX_MARKED = 1;
/** Repetitions, because client and server share the heap: on a busy machine, buffers that wait between them get old. */
const ATTEMPTS = 8;

let rig: EgressRig;
let server: Awaited<ReturnType<typeof httpsServer>>;
before(async () => {
  rig = await EgressRig.open({ mode: 'allowlist', hosts: ['allowed.example'] });
  rig.name('allowed.example');
  const CHUNK = Buffer.alloc(64 * 1024);
  function* chunks() {
    for (let sent = 0; sent < BYTES; sent += CHUNK.length) yield CHUNK;
  }
  server = await httpsServer(rig.serverAuthority, 'allowed.example', (_request, response) => {
    response.setHeader('content-length', BYTES);
    pipeline(Readable.from(chunks()), response, () => {});
  });
  rig.destination = { address: '203.0.113.7', port: portOf(server) };
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  server.close();
});

async function received(stream: Duplex): Promise<number> {
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await once(stream, 'end');
  return bytes;
}

/** Returns how often the whole heap was marked, at least, over several attempts. */
async function marked(act: () => Promise<void>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS && least > MAX_MARKED; attempt++) {
    least = Math.min(least, await markedOnce(act));
  }
  return least;
}

async function markedOnce(act: () => Promise<void>): Promise<number> {
  let count = 0;
  // Node's types omit `detail.kind` of these entries.
  const observer = new PerformanceObserver((list) => {
    const entries = list.getEntries() as (PerformanceEntry & { detail: { kind: number } })[];
    count += entries.filter(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR).length;
  });
  observer.observe({ entryTypes: ['gc'] });
  await act();
  await delay(0);
  observer.disconnect();
  return count;
}

describe('a large download does not have the whole heap marked over and over', () => {
  test('a large download does not have the whole heap marked over and over in HTTP/1.1', async () => {
    const count = await marked(async () => {
      const socket = await rig.connectTls({ servername: 'allowed.example' });
      socket.write('GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n');
      assert.ok((await received(socket)) > BYTES);
    });
    assert.ok(count <= MAX_MARKED, `${count} times`);
  });

  test('a large download does not have the whole heap marked over and over in HTTP/2', async () => {
    const count = await marked(async () => {
      const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
      const session = connectHttp2('https://allowed.example', { createConnection: () => socket });
      assert.equal(await received(session.request({ ':path': '/' })), BYTES);
      session.close();
    });
    assert.ok(count <= MAX_MARKED, `${count} times`);
  });
});
