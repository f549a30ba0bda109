import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { WebSocket } from 'ws';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';

const WITHIN_MS = 1_000;

let world: KeyWorld;
let sandboxId: string;
beforeEach(async () => {
  world = await openKeyWorld();
  sandboxId = await world.readySandbox();
});
afterEach(async () => {
  // Ends the commands and runs that the fake runtime still has.
  world.driver.agentOf(sandboxId).kill();
  await world.close();
});

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly key: string;
  readonly body?: unknown;
  readonly host?: string;
  readonly headers?: Record<string, string>;
}

/** Sends a request without waiting for the end of its answer. */
async function open({ method, path, key, body, headers }: Sent): Promise<IncomingMessage> {
  const sent = httpRequest(world.url + path, {
    method,
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() }),
      ...headers,
    },
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.on('error', () => undefined);
  return response;
}

const inSandbox = (rest: string) => `/v1/sandboxes/${sandboxId}/${rest}`;
const HANG = { code: 'hang', language: 'python' };

/** Opens one of each and returns what each has become at its end. */
async function openAll(key: string): Promise<Record<string, Promise<unknown>>> {
  const ended: Record<string, Promise<unknown>> = {};
  const status = async (answer: Promise<{ status: number; body: { error?: { code: string } } }>) => {
    const { status: code, body } = await answer;
    return [code, body.error?.code];
  };
  ended.run = status(
    world.call('POST', inSandbox('code/runs'), { key, body: HANG, idempotencyKey: crypto.randomUUID() }),
  );
  const started = await world.call('POST', inSandbox('commands'), {
    key,
    body: { command: 'hang', background: true },
    idempotencyKey: crypto.randomUUID(),
  });
  const commandPath = inSandbox(`commands/${started.body.command.id}`);
  ended.command = status(
    world.call('POST', inSandbox('commands'), { key, body: { command: 'hang' }, idempotencyKey: crypto.randomUUID() }),
  );
  ended.wait = status(world.call('GET', `${commandPath}?waitMs=60000`, { key }));
  const streams: Record<string, Sent> = {
    stream: { method: 'POST', path: inSandbox('code/runs/stream'), key, body: { ...HANG, language: 'javascript' } },
    log: { method: 'GET', path: `${commandPath}/stream`, key },
    watch: { method: 'GET', path: inSandbox('files/watch?path=.'), key },
  };
  for (const [name, sent] of Object.entries(streams)) ended[name] = text(await open(sent)).then(lastEvent);
  ended.terminal = closeCode(await openTerminal(key));
  return ended;
}

function lastEvent(stream: string): unknown {
  const last = stream.split('\n\n').findLast((frame) => frame.startsWith('event: '));
  const { type, data } = JSON.parse(last?.split('\ndata: ')[1] ?? '{}');
  return [type, data?.name];
}

async function openTerminal(key: string): Promise<WebSocket> {
  const [near] = duplexPair();
  world.driver.agentOf(sandboxId).client().commands.openTerminal = async () => near;
  const url = `${world.url.replace('http', 'ws')}${inSandbox('pty')}`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${key}` } });
  await once(socket, 'message');
  return socket;
}

async function closeCode(socket: WebSocket): Promise<unknown> {
  const [code, reason] = await once(socket, 'close');
  return [code, String(reason)];
}

const ALL_ENDED = {
  run: [401, 'unauthorized'],
  command: [401, 'unauthorized'],
  wait: [401, 'unauthorized'],
  stream: ['error', 'unauthorized'],
  log: ['error', 'unauthorized'],
  watch: ['error', 'unauthorized'],
  terminal: [1008, 'unauthorized'],
};

/** Resolves with what has ended in time, and names the rest. */
async function outcomes(ended: Record<string, Promise<unknown>>, withinMs: number): Promise<Record<string, unknown>> {
  const late = delay(withinMs, 'still open');
  const entries = Object.entries(ended).map(async ([name, end]) => [name, await Promise.race([end, late])]);
  return Object.fromEntries(await Promise.all(entries));
}

/** Repeats what a busy machine has delayed. */
async function inOneOfThree(attempt: () => Promise<void>): Promise<void> {
  for (let left = 2; left > 0; left--) {
    try {
      return await attempt();
    } catch {}
  }
  return attempt();
}

const allOf = (value: unknown) => Object.fromEntries(Object.keys(ALL_ENDED).map((name) => [name, value]));

describe('what is open for a key', () => {
  it('what is open for a key ends within a second of its revocation: runs, commands, waits, streams, watches and terminals', () =>
    inOneOfThree(async () => {
      const [revoked, other] = [await world.create(), await world.create()];
      const [gone, kept] = [await openAll(revoked.secret), await openAll(other.secret)];
      assert.equal((await world.call('DELETE', `/v1/api-keys/${revoked.id}`)).status, 200);
      assert.deepEqual(await outcomes(gone, WITHIN_MS), ALL_ENDED);
      assert.deepEqual(await outcomes(kept, 200), allOf('still open'));
      await world.call('DELETE', `/v1/api-keys/${other.id}`);
      assert.deepEqual(await outcomes(kept, WITHIN_MS), ALL_ENDED);
    }));

  it('what is open for a key ends within a second of its expiry', () =>
    inOneOfThree(async () => {
      const expiresAt = new Date(Date.now() + 2_000).toISOString();
      const { secret } = await world.create({ expiresAt });
      const gone = await openAll(secret);
      assert.deepEqual(await outcomes(gone, 0), allOf('still open'));
      await delay(Date.parse(expiresAt) - Date.now());
      assert.deepEqual(await outcomes(gone, WITHIN_MS), ALL_ENDED);
    }));

  it('what is open for a key ends when the key is rotated without a grace, and the answer to the rotation arrives all the same', async () => {
    const { id, secret } = await world.create();
    const gone = await openAll(secret);
    const rotated = await world.call('POST', `/v1/api-keys/${id}/rotate`, { key: secret, body: { graceMs: 0 } });
    assert.equal(rotated.status, 201);
    assert.deepEqual(await outcomes(gone, WITHIN_MS), ALL_ENDED);
    const path = '/v1/api-keys/current';
    assert.equal((await world.call('GET', path, { key: rotated.body.secret })).body.apiKey.rotatedFrom, id);
    assert.equal((await world.call('GET', path, { key: secret })).status, 401);
  });

  it('what is open for a key ends as a download too, before its last byte', async () => {
    const { id, secret } = await world.create();
    const path = inSandbox('files/content?path=large');
    const headers = { authorization: `Bearer ${secret}` };
    await fetch(world.url + path, { method: 'PUT', headers, body: Buffer.alloc(32 * 1024 * 1024) });
    const download = await open({ method: 'GET', path, key: secret });
    assert.equal((await world.call('DELETE', `/v1/api-keys/${id}`)).status, 200);
    const isComplete = new Promise((resolve) => download.once('close', () => resolve(download.complete)));
    download.resume();
    assert.deepEqual(await outcomes({ isComplete }, WITHIN_MS), { isComplete: false });
  });

  it('what is open for a key takes nothing more from a client that does not close its terminal', async () => {
    const { id, secret } = await world.create();
    const [near, far] = duplexPair();
    const socket = await openTerminal(secret);
    world.driver.agentOf(sandboxId).client().commands.openTerminal = async () => near;
    const second = new WebSocket(socket.url, { headers: { authorization: `Bearer ${secret}` } });
    await once(second, 'message');
    let typed = '';
    far.on('data', (chunk) => {
      typed += chunk;
    });
    second.send(Buffer.from('before'));
    await eventually(() => typed.includes('before'), { because: 'the terminal takes what is typed' });
    // A client that reads nothing does not see the closing frame, so it neither answers it nor stops sending.
    second.pause();
    assert.equal((await world.call('DELETE', `/v1/api-keys/${id}`)).status, 200);
    second.send(Buffer.from('after'));
    await delay(500);
    assert.equal(typed.includes('after'), false);
    assert.equal(far.destroyed || far.readableEnded, true);
    second.terminate();
  });

  it('what is open for a key is a request too whose body arrives after the revocation', async () => {
    const { id, secret } = await world.create();
    const body = JSON.stringify({ metadata: { late: 'yes' } });
    const sent = httpRequest(`${world.url}/v1/sandboxes`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', 'content-length': body.length },
    });
    sent.write(body.slice(0, 5));
    await delay(50);
    assert.equal((await world.call('DELETE', `/v1/api-keys/${id}`)).status, 200);
    sent.end(body.slice(5));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 401);
    assert.equal((await world.call('GET', '/v1/sandboxes?metadata.late=yes')).body.data.length, 0);
  });
});

describe('a preview', () => {
  async function openPreview(key: string) {
    const app = createServer((request, response) => {
      response.write('open');
      if (request.url !== '/stays') response.end();
    });
    await once(app.listen(0, '127.0.0.1'), 'listening');
    world.driver.agentOf(sandboxId).ports.map(8000, (app.address() as AddressInfo).port);
    const { body } = await world.call('POST', inSandbox('previews'), { key, body: { port: 8000 } });
    const { url, accessToken, id } = body.preview;
    const ask = (path: string) => {
      const headers = { host: new URL(url).host, 'x-cloche-preview-token': accessToken };
      return open({ method: 'GET', path, key: 'none', headers });
    };
    const closed = (response: IncomingMessage) =>
      new Promise((resolve) => response.resume().once('close', () => resolve('closed')));
    return { id, ask, closed, [Symbol.dispose]: () => app.close() };
  }

  it('a preview ends with the key that created it: its token, its connections and its record', async () => {
    const { id, secret } = await world.create();
    using preview = await openPreview(secret);
    const stays = await preview.ask('/stays');
    const stayed = preview.closed(stays);
    assert.equal(stays.statusCode, 200);
    assert.equal((await world.call('GET', `/v1/previews/${preview.id}`)).status, 200);
    assert.equal((await world.call('DELETE', `/v1/api-keys/${id}`)).status, 200);
    assert.equal((await preview.ask('/')).statusCode, 404);
    assert.equal((await world.call('GET', `/v1/previews/${preview.id}`)).status, 404);
    assert.deepEqual(await outcomes({ stayed }, WITHIN_MS), { stayed: 'closed' });
  });

  it('a preview ends with the expiry of that key', async () => {
    const expiresAt = new Date(Date.now() + 1_500).toISOString();
    const { secret } = await world.create({ expiresAt });
    using preview = await openPreview(secret);
    assert.equal((await world.call('GET', `/v1/previews/${preview.id}`)).body.preview.expiresAt, expiresAt);
    const stayed = preview.closed(await preview.ask('/stays'));
    await delay(Date.parse(expiresAt) - Date.now());
    assert.deepEqual(await outcomes({ stayed }, WITHIN_MS), { stayed: 'closed' });
    assert.equal((await preview.ask('/')).statusCode, 404);
  });
});
