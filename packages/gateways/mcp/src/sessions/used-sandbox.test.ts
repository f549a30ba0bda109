import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import {
  failing,
  json,
  type Reply,
  type ScriptedServer,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import { ProcessSession } from './process-session.ts';
import { UsedSandbox } from './used-sandbox.ts';

const HOUR_MS = 3_600_000;
let server: ScriptedServer;
let cloche: Cloche;
let reply: (method: string, path: string) => Reply;
let session: ProcessSession;
/** Requests of earlier tests. */
let seen = 0;
before(async () => {
  server = await startScriptedServer(({ method, path }) => reply(method, path));
  cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
});
after(() => server[Symbol.asyncDispose]());
beforeEach(() => {
  session = new ProcessSession();
  seen = server.requests.length;
});

const used = (signal = new AbortController().signal) => new UsedSandbox({ cloche, session, signal });
const sent = () => server.requests.slice(seen).map(({ method, path }) => `${method} ${path}`);
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
const answer = (fields: object) => json(200, { sandbox: { ...sampleSandbox(), id: 'sbx_1', ...fields } });

describe('the sandbox of a session', () => {
  beforeEach(() => session.replaceSandbox('sbx_1'));

  it('the sandbox of a session lives longer while it is used, from half of its lifetime on', async () => {
    for (const [left, requests] of [
      [HOUR_MS, ['GET /v1/sandboxes/sbx_1']],
      [HOUR_MS / 3, ['GET /v1/sandboxes/sbx_1', 'POST /v1/sandboxes/sbx_1/ttl']],
    ] as const) {
      seen = server.requests.length;
      reply = () => answer({ status: 'idle', expiresAt: inMs(left) });
      assert.equal(await used().id(undefined), 'sbx_1');
      assert.deepEqual(sent(), requests);
    }
    assert.deepEqual(server.requests.at(-1)?.body, { ttlMs: HOUR_MS });
  });

  it('the sandbox of a session is used until its end if it may live no longer, or if the key must not extend or read it', async () => {
    for (const code of ['sandbox_ttl_exceeded', 'forbidden', 'quota_exceeded'] as const) {
      reply = (method) =>
        method === 'POST' ? failing(code) : answer({ status: 'ready', expiresAt: inMs(HOUR_MS / 3) });
      assert.equal(await used().id(undefined), 'sbx_1', code);
    }
    reply = () => failing('forbidden');
    assert.equal(await used().id(undefined), 'sbx_1');
  });

  it('the sandbox of a session is replaced when it has ended, however it has', async () => {
    for (const status of ['expiring', 'destroyed', 'failed', 'gone']) {
      await session.replaceSandbox('sbx_1');
      reply = (method) => {
        if (method === 'POST') return json(201, { sandbox: { ...sampleSandbox(), id: 'sbx_2' } });
        return status === 'gone' ? failing('not_found') : answer({ status });
      };
      const choice = used();
      assert.equal(await choice.id(undefined), 'sbx_2', status);
      assert.match(choice.note ?? '', /^The earlier sandbox of this session has ended/);
      assert.equal(session.sandboxId, 'sbx_2');
    }
  });

  it('the sandbox of a session is the one that a call names, without a question', async () => {
    assert.equal(await used().id('sbx_9'), 'sbx_9');
    assert.deepEqual(sent(), []);
  });
});

describe('the first sandbox of a session', () => {
  it('stays that of the session if the call that needs it is canceled', async () => {
    const canceling = new AbortController();
    let create = () => {};
    const asked = new Promise<void>((resolve) => {
      create = resolve;
    });
    reply = () => async (response) => {
      await asked;
      response.writeHead(201, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ sandbox: { ...sampleSandbox(), id: 'sbx_3' } }));
    };
    const choosing = used(canceling.signal).id(undefined);
    await eventually(() => server.requests.length > seen, { because: 'the sandbox is being created' });
    canceling.abort();
    await assert.rejects(choosing);
    create();
    await eventually(() => session.sandboxId === 'sbx_3', { because: 'the session keeps it' });
  });

  it('the first sandbox of a session is destroyed at once if the session has ended meanwhile', async () => {
    reply = () => json(201, { sandbox: { ...sampleSandbox(), id: 'sbx_4' } });
    session.end();
    await assert.rejects(used().id(undefined), /The session has ended/);
    assert.deepEqual(sent(), ['POST /v1/sandboxes', 'DELETE /v1/sandboxes/sbx_4']);
  });

  it('the first sandbox of a session has one key for all calls that need it at the same time', async () => {
    reply = () => json(201, { sandbox: { ...sampleSandbox(), id: 'sbx_5' } });
    await Promise.all([used().id(undefined), used().id(undefined)]);
    const keys = server.requests.slice(seen).map(({ headers }) => headers['idempotency-key']);
    assert.equal(keys.length, 2);
    assert.equal(keys[0], keys[1]);
  });
});
