import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { eventStream, failing, frame, type Reply, type SeenRequest } from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import type { Client } from '@modelcontextprotocol/client';
import { REVISIONS, startRouter } from '../../testing/start-router.ts';

const FILE = 'cloche://sandbox/sbx_1/workspace/a.txt';
const OTHER = 'cloche://sandbox/sbx_1/workspace/b.txt';
const change = (type: string, path: string) => frame(type, { path, kind: 'file' });

let router: Awaited<ReturnType<typeof startRouter>>;
let reply: (request: SeenRequest) => Reply;
let seen = 0;
let client: Client;
let told: string[];
before(async () => {
  router = await startRouter((request) => reply(request));
});
after(() => router[Symbol.asyncDispose]());
beforeEach(async () => {
  reply = () => eventStream([], { end: false });
  seen = router.service.requests.length;
  told = [];
  client = await router.connect(REVISIONS['2025-11-25'] ?? {});
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    told.push(params.uri);
  });
});

const watches = () => router.service.requests.slice(seen).filter(({ path }) => path.includes('/files/watch'));
const isTold = (uris: readonly string[]) =>
  eventually(() => told.length >= uris.length, { because: `${told} has ${uris}` }).then(() =>
    assert.deepEqual(told.sort(), [...uris].sort()),
  );

async function send(method: string, sessionId?: string): Promise<Response> {
  return fetch(router.url, {
    method,
    headers: {
      authorization: 'Bearer clk_test',
      accept: 'text/event-stream',
      ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    },
  });
}

describe('a client that has subscribed to a file', () => {
  const CHANGES: Readonly<Record<string, readonly [events: readonly string[], uris: readonly string[]]>> = {
    'a new content': [[change('modified', '/workspace/a.txt')], [FILE]],
    'its creation': [[change('created', '/workspace/a.txt')], [FILE]],
    'its deletion': [[change('deleted', '/workspace/a.txt')], [FILE]],
    'many changes at once, once': [Array(20).fill(change('modified', '/workspace/a.txt')), [FILE]],
    'changes of each of two files': [
      [change('modified', '/workspace/b.txt'), change('modified', '/workspace/a.txt')],
      [FILE, OTHER],
    ],
    'more changes than can be counted, of each file': [[frame('overflow', {})], [FILE, OTHER]],
    'the end of their directory': [[frame('complete', {})], [FILE, OTHER]],
    'nothing of other files': [
      [change('modified', '/workspace/c.txt'), change('modified', '/workspace/a.txt')],
      [FILE],
    ],
  };
  for (const [what, [events, uris]] of Object.entries(CHANGES))
    it(`a client that has subscribed to a file is told ${what}`, async () => {
      let send = (_text: string) => {};
      reply = () => (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.flushHeaders();
        send = (text) => response.write(text);
      };
      await client.subscribeResource({ uri: FILE });
      await client.subscribeResource({ uri: OTHER });
      await eventually(() => watches().length > 0, { because: 'the directory is watched' });
      // Files of one directory have one watch.
      assert.equal(watches().length, 1);
      assert.equal(watches()[0]?.path, '/v1/sandboxes/sbx_1/files/watch?path=%2Fworkspace');
      for (const event of events) send(event);
      await isTold(uris);
    });

  it('a client that has subscribed to a file is told nothing after it has unsubscribed, and the watch ends', async () => {
    await client.subscribeResource({ uri: FILE });
    await eventually(() => watches().length === 1, { because: 'the directory is watched' });
    await client.unsubscribeResource({ uri: FILE });
    await watches()[0]?.disconnected;
    await client.unsubscribeResource({ uri: FILE });
  });

  it('a client that has subscribed to a file has no watch after its session has ended or it has left', async () => {
    for (const end of ['session', 'client'] as const) {
      seen = router.service.requests.length;
      const own = await router.connect({});
      await own.subscribeResource({ uri: FILE });
      await eventually(() => watches().length === 1, { because: 'the directory is watched' });
      if (end === 'session') await (own.transport as { terminateSession?: () => Promise<void> }).terminateSession?.();
      else await own.close();
      await watches()[0]?.disconnected;
    }
  });

  it('a client that has subscribed to a file goes on where the directory cannot be watched, and is told again after a new subscription', async () => {
    reply = () => failing('not_found');
    await client.subscribeResource({ uri: FILE });
    await eventually(() => watches().length === 1, { because: 'the directory was asked for' });
    reply = () => eventStream([change('modified', '/workspace/a.txt')], { end: false });
    await client.unsubscribeResource({ uri: FILE });
    await client.subscribeResource({ uri: FILE });
    await isTold([FILE]);
  });

  it('a client that has subscribed to a file is refused what is no resource, and more subscriptions than a session has', async () => {
    for (const uri of ['test://a', 'cloche://sandbox/sbx_1', 'cloche://sandbox/sbx_1/%ff', 'x'.repeat(10)])
      await assert.rejects(client.subscribeResource({ uri }), /is no resource/, uri);
    for (let index = 0; index < 32; index += 1) await client.subscribeResource({ uri: `${FILE}${index}` });
    await client.subscribeResource({ uri: `${FILE}1` });
    await assert.rejects(client.subscribeResource({ uri: OTHER }), /at most 32 subscriptions/);
    assert.equal(watches().length, 1);
  });

  it('a client that has subscribed to a file needs no watch for an artifact, which never changes', async () => {
    await client.subscribeResource({ uri: 'cloche://artifact/art_1' });
    await client.subscribeResource({ uri: FILE });
    await eventually(() => watches().length === 1, { because: 'the directory is watched' });
  });
});

describe('the stream of a session', () => {
  it('the stream of a session is refused without a session, of an unknown session, and beyond the limit of requests', async () => {
    assert.equal((await send('GET')).status, 405);
    assert.equal((await send('GET', 'unknown')).status, 404);
    router.refuse({ status: 429, message: 'too many' });
    try {
      const own = await router.connect({});
      const { sessionId } = own.transport as { sessionId?: string };
      assert.equal((await send('GET', sessionId)).status, 429);
      await own.close();
    } finally {
      router.refuse(undefined);
    }
  });

  it('the stream of a session is one: a later one ends it, and the end of the key ends that', async () => {
    const { sessionId } = client.transport as { sessionId?: string };
    const first = await send('GET', sessionId);
    assert.equal(first.headers.get('content-type'), 'text/event-stream');
    const second = await send('GET', sessionId);
    assert.match(await first.text(), /^: open\n\n$/);
    router.endKey();
    assert.match(await second.text(), /^: open\n\n$/);
  });

  it('the stream of a session is offered only to a client with a session', async () => {
    assert.equal(client.getServerCapabilities()?.resources?.subscribe, true);
    const without = await router.connect(REVISIONS['2026-07-28'] ?? {});
    assert.ok(!without.getServerCapabilities()?.resources?.subscribe);
    await without.close();
  });
});
