/** Clients that disconnect at any byte of any kind of request, while reading or not, by an end or by a reset. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { after, before, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { fuzz, type Random } from '@cloche/testkit/fuzz';
import { lentService } from '../support/lent-service.ts';
import type { TestService } from '../support/service.ts';

const CLIENTS = 30;
const MIB = 2 ** 20;
const SWITCH =
  'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

const APP = `
const { createServer } = await import('node:http');
const app = createServer((request, response) => {
  request.resume();
  response.end('x'.repeat(4 * 2 ** 20));
});
app.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n');
  socket.on('error', () => {}).pipe(socket);
});
await new Promise((resolve) => app.listen(8000, '127.0.0.1', resolve));`;

let service: TestService;
let sandboxId: string;
/** Functions that build the bytes of each kind of request. */
const kinds = new Map<string, () => Buffer>();

before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
  const { api } = service;
  await api.run(sandboxId, `open('large', 'wb').write(b'x' * ${8 * MIB})`);
  await api.run(sandboxId, APP, { language: 'javascript' });
  const at = `/v1/sandboxes/${sandboxId}`;
  const preview = await api.post(`${at}/previews`, { port: 8000 });
  assert.equal(preview.status, 201, JSON.stringify(preview.body));
  const artifact = await api.post(`${at}/artifacts`, { path: 'large' });
  assert.equal(artifact.status, 201, JSON.stringify(artifact.body));
  const command = await api.post(`${at}/commands`, { command: 'seq 100000; sleep 300', background: true });
  assert.ok(command.status < 300, JSON.stringify(command.body));

  const own = `host: a\r\nauthorization: Bearer ${service.apiKey}\r\n`;
  const get =
    (path: string, fields = '') =>
    () =>
      Buffer.from(`GET ${path} HTTP/1.1\r\n${own}${fields}\r\n`);
  const post = (path: string, body: unknown) => () => {
    const text = JSON.stringify(body);
    const fields = `content-type: application/json\r\nidempotency-key: ${randomUUID()}\r\ncontent-length: ${text.length}\r\n`;
    return Buffer.from(`POST ${path} HTTP/1.1\r\n${own}${fields}\r\n${text}`);
  };
  const { url, accessToken } = preview.body.preview;
  const toApp =
    (fields = '') =>
    () =>
      Buffer.from(
        `GET / HTTP/1.1\r\nhost: ${new URL(url).host}\r\nx-cloche-preview-token: ${accessToken}\r\n${fields}\r\n`,
      );
  const upload = (bytes: number, fields: string) => () =>
    Buffer.concat([
      Buffer.from(`PUT ${at}/files/content?path=up HTTP/1.1\r\n${own}${fields}\r\n`),
      Buffer.alloc(bytes),
    ]);
  kinds.set('a download', get(`${at}/files/content?path=large`));
  kinds.set('an upload', upload(4 * MIB, `content-length: ${4 * MIB}\r\n`));
  kinds.set('a small upload', upload(1000, 'content-length: 1000\r\n'));
  kinds.set('an artifact', get(`/v1/artifacts/${artifact.body.artifact.id}/content`));
  kinds.set('a run', post(`${at}/code/runs`, { code: 'print("x" * 100000)', language: 'python' }));
  kinds.set('a stream', post(`${at}/code/runs/stream`, { code: 'for n in range(2000): print(n)', language: 'python' }));
  kinds.set('a command', post(`${at}/commands`, { command: 'head -c 1000000 /dev/zero' }));
  kinds.set(
    'a log that is followed',
    get(`${at}/commands/${command.body.command.id}/logs`, 'accept: text/event-stream\r\n'),
  );
  kinds.set('a preview', toApp());
  kinds.set('a WebSocket of a preview', toApp(SWITCH));
  kinds.set('a terminal', get(`${at}/pty`, SWITCH));
});
after(() => service?.close());

async function vanish(random: Random, bytes: Buffer): Promise<void> {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1').on('error', () => undefined);
  await once(socket, 'connect');
  const sent = random.chance(0.4) ? bytes.subarray(0, random.below(bytes.length)) : bytes;
  if (random.chance(0.7)) socket.resume();
  socket.write(sent);
  await delay(random.below(40));
  if (random.chance(0.3)) socket.write(Buffer.alloc(random.below(70_000), random.below(256)));
  if (random.chance(0.7)) socket.resetAndDestroy();
  else socket.destroy();
}

const descriptors = () => readdirSync(`/proc/${service.pid('server')}/fd`).length;

it('clients that vanish end nothing but themselves, and nothing of them stays', async () => {
  const { pid } = service;
  const pids = [pid('server'), pid('hostd')];
  const openBefore = descriptors();
  for (const [kind, makeBytes] of kinds) {
    await fuzz(CLIENTS, (random) => vanish(random, makeBytes()));
    const run = await service.api.run(sandboxId, `'after ${kind}'`);
    assert.equal(run.outputs[0]?.value, `'after ${kind}'`);
    assert.deepEqual([pid('server'), pid('hostd')], pids, kind);
  }
  // Neither a partial file nor a temporary one is left.
  const names = (await service.api.get(`/v1/sandboxes/${sandboxId}/files?path=.`)).body.data.map(
    ({ name }: { name: string }) => name,
  );
  assert.deepEqual(
    names.filter((name: string) => !['large', 'up'].includes(name)),
    [],
  );
  // Connections to an agent are kept as long as its sandbox lives.
  await service.api.delete(`/v1/sandboxes/${sandboxId}`);
  await eventually(() => descriptors() <= openBefore);
});
