import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { APP_PORT, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

/** Makes the port in the sandbox answer each connection with these bytes. */
async function serveBytes(bytes: string, port: number, ends = true): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => (ends ? socket.end(bytes) : socket.write(bytes)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  server.unref();
  world.agent.ports.map(port, (server.address() as AddressInfo).port);
}

describe('a page of the preview itself', () => {
  let host: string;
  before(async () => {
    ({ host } = await world.open({ visibility: 'public' }));
  });

  it('says that nothing listens, on which port, and looks again', async () => {
    world.agent.ports.unmap(APP_PORT);
    const page = await world.ask(host, { headers: { accept: 'text/html' } });
    assert.equal(page.status, 502);
    assert.match(page.text, /port 8000/);
    assert.match(page.text, /http-equiv="refresh"/);
    assert.equal(page.headers['retry-after'], '2');
    assert.equal(page.headers['cache-control'], 'no-store');
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
    const json = await world.ask(host, { headers: { accept: 'application/json' }, method: 'POST', body: 'x' });
    assert.deepEqual([json.status, JSON.parse(json.text).error.code], [502, 'preview_port_closed']);
    assert.equal(JSON.parse(json.text).error.requestId, json.headers['x-request-id']);
  });

  it('says that the program at the port does not speak HTTP', async () => {
    const code = async (port: number) => {
      const preview = await world.open({ visibility: 'public', port });
      const answer = await world.ask(preview.host, { headers: { accept: 'application/json' } });
      return [answer.status, JSON.parse(answer.text).error.code];
    };
    const nonsense = ['SSH-2.0-OpenSSH_9.2\r\n', '', 'HTTP/1.1 99 Low\r\n\r\n', 'HTTP/1.1 999 High\r\n\r\n'];
    nonsense.push(
      `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(64_000)}\r\n\r\n`,
      'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
    );
    nonsense.push('HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n');
    for (const [index, bytes] of nonsense.entries()) {
      await serveBytes(bytes, 9000 + index);
      assert.deepEqual(await code(9000 + index), [502, 'preview_no_http'], JSON.stringify(bytes.slice(0, 40)));
    }
  });

  it('a page of the preview itself says that the sandbox is paused, and wakes it for nobody', async () => {
    await serveBytes('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup', 9101);
    const preview = await world.open({ visibility: 'public', port: 9101 });
    const paused = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/pause`);
    const json = await world.ask(preview.host, { headers: { accept: 'application/json' } });
    assert.deepEqual([json.status, JSON.parse(json.text).error.code], [503, 'sandbox_paused']);
    const page = await world.ask(preview.host, { headers: { accept: 'text/html' } });
    assert.deepEqual([page.status, page.headers['retry-after']], [503, undefined]);
    assert.match(page.text, /The sandbox is paused/);
    const socket = await world.raw(`GET / HTTP/1.1\r\nHost: ${preview.host}\r\n${SWITCH}\r\n`);
    assert.match(socket, /^HTTP\/1\.1 409 /);
    const path = `/v1/sandboxes/${world.sandboxId}`;
    assert.deepEqual((await world.call('GET', path)).body, paused.body);
    await world.call('POST', `${path}/resume`);
    assert.equal((await world.ask(preview.host)).text, 'up');
  });

  it('a visitor wakes the sandbox of a preview whose policy is traffic, with a request or a WebSocket, after its token', async () => {
    const woken = await openPreviewWorld({ CLOCHE_WAKE_TIMEOUT_MS: '300' }, undefined, { pause: { wake: 'traffic' } });
    try {
      await woken.serve((_, response) => response.end('up'));
      const path = `/v1/sandboxes/${woken.sandboxId}`;
      const state = async () => (await woken.call('GET', path)).body.sandbox;
      const pause = () => woken.call('POST', `${path}/pause`);
      const preview = await woken.open({ visibility: 'public' });
      await pause();
      assert.equal((await woken.ask(preview.host)).text, 'up');
      assert.deepEqual([(await state()).paused, (await state()).resumed.by], [undefined, 'traffic']);
      await pause();
      // The app answers, although it does not switch.
      assert.match(await woken.raw(`GET / HTTP/1.1\r\nHost: ${preview.host}\r\n${SWITCH}\r\n`), /^HTTP\/1\.1 200 /);
      assert.equal((await state()).paused, undefined);

      const sealed = await woken.open({ visibility: 'private', port: APP_PORT + 1 });
      await pause();
      for (const url of ['/', '/?cloche_token=wrong']) {
        const refused = await woken.ask(sealed.host, { path: url });
        assert.ok(refused.status === 401 || refused.status === 403, `${refused.status}`);
      }
      assert.equal((await woken.ask('prv-unknown.localhost')).status, 404);
      assert.ok((await state()).paused, 'who has no token wakes nothing');

      const { freezing } = woken.driver;
      assert.ok(freezing);
      const thaw = freezing.thaw.bind(freezing);
      const thawed = Promise.withResolvers<void>();
      freezing.thaw = async (...parts) => {
        await thawed.promise;
        return thaw(...parts);
      };
      const late = await woken.ask(preview.host, { headers: { accept: 'application/json' } });
      assert.deepEqual([late.status, JSON.parse(late.text).error.code], [503, 'preview_unavailable']);
      assert.ok(late.headers['retry-after']);
      thawed.resolve();
      assert.equal((await woken.ask(preview.host)).text, 'up');
    } finally {
      await woken.close();
    }
  });

  it('a page of the preview itself cuts an answer that its app cuts', async () => {
    await serveBytes('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', 9100);
    const preview = await world.open({ visibility: 'public', port: 9100 });
    await assert.rejects(world.ask(preview.host), /aborted/);
  });

  it('a page of the preview itself shows what others wrote as text', async () => {
    const answer = await world.ask('prv-%22%3e%3cscript%3e.localhost');
    assert.ok(!answer.text.includes('<script>'));
  });

  it('a page of the preview itself refuses a request that names no path', async () => {
    const text = await world.raw(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    assert.match(text, /^HTTP\/1\.1 400 /);
  });
});
