import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';

/** Remaining lifetime of the preview when a connection is opened; its app answers much sooner. */
const LEFT_MS = 1000;

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

describe('connections through a preview', () => {
  const open = async (host: string) => {
    const socket = world.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    const [head] = await once(socket, 'data');
    return { socket, head: String(head) };
  };
  before(async () => {
    const app = await world.serve(echo);
    app.on('upgrade', (_, socket: Socket) => {
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    });
  });

  it('connections through a preview end when it is deleted, when its time is up, and when its sandbox ends', async ({
    mock,
  }) => {
    const deleted = await world.open({ visibility: 'public' });
    const one = await open(deleted.host);
    assert.match(one.head, /^HTTP\/1\.1 101 /);
    const brief = await world.open({ visibility: 'public', ttlMs: 60_000 });
    mock.timers.enable({ apis: ['Date'], now: Date.parse(brief.expiresAt) - LEFT_MS });
    const two = await open(brief.host);
    assert.match(two.head, /^HTTP\/1\.1 101 /);
    const closes = [one, two].map(({ socket }) => once(socket.resume(), 'close'));
    await world.call('DELETE', `/v1/previews/${deleted.id}`);
    await Promise.all(closes);
    mock.timers.setTime(Date.parse(brief.expiresAt));
    assert.equal((await world.ask(brief.host)).status, 404);
    mock.timers.reset();

    const other = await openPreviewWorld();
    const app = await other.serve(echo);
    app.on('upgrade', (_, socket: Socket) =>
      socket.on('error', () => undefined).write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    );
    const { host } = await other.open({ visibility: 'public' });
    const socket = other.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    await once(socket, 'data');
    const closed = once(socket.resume(), 'close');
    await other.call('DELETE', `/v1/sandboxes/${other.sandboxId}`);
    await closed;
    await other.close();
  });

  it('connections through a preview are refused once its time is up, also to clients that had one a moment before', async ({
    mock,
  }) => {
    const { host, expiresAt } = await world.open({ visibility: 'public', ttlMs: 60_000 });
    mock.timers.enable({ apis: ['Date'] });
    for (const [leftMs, status] of [
      [30_000, 200],
      [0, 404],
    ] as const) {
      mock.timers.setTime(Date.parse(expiresAt) - leftMs);
      assert.equal((await world.ask(host)).status, status, `${leftMs} ms left`);
    }
  });

  it('connections through a preview are bounded, and a client that leaves makes room even if the app keeps its side open', async () => {
    const { host, id } = await world.open({ visibility: 'public' });
    const all = await Promise.all(Array.from({ length: 256 }, () => open(host)));
    const refused = await world.ask(host, { headers: { accept: 'application/json' } });
    assert.deepEqual([refused.status, JSON.parse(refused.text).error.code], [503, 'preview_busy']);
    const metrics = await (await fetch(`${world.server.url}/metrics`)).text();
    assert.match(metrics, /^cloche_preview_connections 256$/m);
    all[0]?.socket.destroy();
    while ((await world.ask(host)).status !== 200);
    await world.call('DELETE', `/v1/previews/${id}`);
    for (const { socket } of all) socket.destroy();
  });
});
