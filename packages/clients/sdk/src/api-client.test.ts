import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { drop, failing, json, type Script, sampleRun, sampleSandbox, startScriptedServer } from '../testing/index.ts';
import { ApiClient, type ClientOptions, isClocheError } from './index.ts';

/** A port without a server. It is never assigned to a socket that requests any free port. */
const CLOSED_PORT = 3;
const created = json(201, { sandbox: sampleSandbox() });

async function setUp(script: Script, options: ClientOptions = {}) {
  const server = await startScriptedServer(script);
  const client = new ApiClient({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1, ...options });
  return { server, client };
}

function keysOf(requests: readonly { headers: Record<string, string | string[] | undefined> }[]) {
  return requests.map(({ headers }) => headers['idempotency-key']);
}

describe('a call', () => {
  it('a call sends the method, path, query, body and key of its operation', async () => {
    const { server, client } = await setUp([created, json(200, { data: [], hasMore: false })]);
    await using _ = server;
    await client.call('createSandbox', { body: { template: 'node', ttlMs: 5000 } });
    await client.call('listSandboxes', { query: { status: 'ready', 'metadata.team': 'a&b' } });

    const [create, list] = server.requests;
    assert.equal(`${create?.method} ${create?.path}`, 'POST /v1/sandboxes');
    assert.deepEqual(create?.body, { template: 'node', ttlMs: 5000 });
    assert.equal(create?.headers.authorization, 'Bearer clk_test');
    assert.equal(create?.headers['content-type'], 'application/json');
    assert.match(String(create?.headers['idempotency-key']), /^[0-9a-f-]{36}$/);
    assert.equal(`${list?.method} ${list?.path}`, 'GET /v1/sandboxes?status=ready&metadata.team=a%26b');
    assert.equal(list?.headers['idempotency-key'], undefined);
    assert.equal(list?.headers['content-type'], undefined);
  });

  it('a call keeps a path that the address has, and escapes what it puts into it', async () => {
    const { server } = await setUp([json(200, { sandbox: sampleSandbox() })]);
    await using _ = server;
    const client = new ApiClient({ url: `${server.url}/cloche/`, apiKey: 'clk_test' });
    await client.call('getSandbox', { params: { sandboxId: 'sbx_a/../b?' } });
    assert.equal(server.requests[0]?.path, '/cloche/v1/sandboxes/sbx_a%2F..%2Fb%3F');
  });

  it('a call refuses an empty or dotted id, which would name another resource, before it sends anything', async () => {
    const { server, client } = await setUp([]);
    await using _ = server;
    for (const id of ['', '.', '..']) {
      const call = client.call('killSandbox', { params: { sandboxId: id as 'sbx_' } });
      await assert.rejects(call, { code: 'invalid_options', message: /sandboxId is/ });
    }
    assert.equal(server.requests.length, 0);
  });

  it('a call gives each logical operation a key of its own, and keeps one that is given', async () => {
    const { server, client } = await setUp([created, created, created]);
    await using _ = server;
    await client.call('createSandbox');
    await client.call('createSandbox');
    await client.call('createSandbox', { idempotencyKey: 'mine' });
    const [first, second, third] = keysOf(server.requests);
    assert.notEqual(first, second);
    assert.equal(third, 'mine');
  });
});

describe('retries', () => {
  it('reuse the key, so that a create whose answer was lost makes one sandbox', async () => {
    const made = new Map<unknown, ReturnType<typeof sampleSandbox>>();
    const { server, client } = await setUp(({ headers }) => {
      const key = headers['idempotency-key'];
      const known = made.get(key);
      if (known) return json(201, { sandbox: known }, { 'idempotency-replayed': 'true' });
      made.set(key, sampleSandbox({ id: `sbx_${made.size + 1}` as const }));
      return drop;
    });
    await using _ = server;
    const { sandbox } = await client.call('createSandbox', { body: { template: 'node' } });
    assert.equal(sandbox.id, 'sbx_1');
    assert.equal(made.size, 1);
    assert.deepEqual(server.requests[0]?.body, server.requests[1]?.body);
  });

  it('retries follow a broken connection, 429, 500, 503 and a proxy that finds no service', async () => {
    const gateway = json(502, 'bad gateway', { 'content-type': 'text/html' });
    for (const reply of [drop, failing('rate_limited'), failing('internal'), failing('unavailable'), gateway]) {
      const { server, client } = await setUp([reply, created]);
      await using _ = server;
      await client.call('createSandbox');
      assert.equal(new Set(keysOf(server.requests)).size, 1);
      assert.equal(server.requests.length, 2);
    }
  });

  it('retries do not follow an answer that is final, a quota that is used up among them', async () => {
    for (const code of ['quota_exceeded', 'invalid_request', 'sandbox_destroyed', 'idempotency_key_reused'] as const) {
      const { server, client } = await setUp([failing(code)]);
      await using _ = server;
      await assert.rejects(client.call('createSandbox'), { code });
      assert.equal(server.requests.length, 1);
    }
  });

  it('retries wait for the outcome of a request in progress, beyond the number of retries, and return its replay', async () => {
    const busy = failing('idempotency_request_in_progress', { 'retry-after': '0' });
    const { server, client } = await setUp([busy, busy, busy, created], { maxRetries: 0 });
    await using _ = server;
    assert.equal((await client.call('createSandbox')).sandbox.id, 'sbx_1');
    assert.equal(server.requests.length, 4);
  });

  it('retries wait as long as Retry-After asks, and give up at once where that is beyond the deadline', async () => {
    const later = await setUp([failing('unavailable', { 'retry-after': '0.2' }), created]);
    await using _ = later.server;
    const began = performance.now();
    await later.client.call('createSandbox');
    assert.ok(performance.now() - began >= 190);

    const tooLate = await setUp([failing('unavailable', { 'retry-after': '3600' })]);
    await using __ = tooLate.server;
    await assert.rejects(tooLate.client.call('createSandbox'), { code: 'unavailable', retryAfterMs: 3_600_000 });
  });

  it('retries end after maxRetries with the last error', async () => {
    const { server, client } = await setUp(() => failing('unavailable'), { maxRetries: 2 });
    await using _ = server;
    await assert.rejects(client.call('createSandbox'), { code: 'unavailable', status: 503 });
    assert.equal(server.requests.length, 3);
  });
});

describe('an error', () => {
  it('an error carries code, status, message, request id, details and the key it was sent with', async () => {
    const { server, client } = await setUp([failing('sandbox_ttl_exceeded', {}, { maxTtlMs: 42 })]);
    await using _ = server;
    const error = await client.call('createSandbox').catch((caught: unknown) => caught);
    assert.ok(isClocheError(error, 'sandbox_ttl_exceeded'));
    assert.equal(error.details?.maxTtlMs, 42);
    assert.equal(error.status, 422);
    assert.equal(error.requestId, 'req_test');
    assert.equal(error.idempotencyKey, server.requests[0]?.headers['idempotency-key']);
    assert.match(error.message, /lifetime/);
    assert.equal(isClocheError(error, 'not_found'), false);
  });

  it('says that another server answers, for a success that is no JSON and for a redirect', async () => {
    for (const reply of [json(200, undefined), json(302, {}, { location: 'https://example.com/' })]) {
      const { server, client } = await setUp([reply]);
      await using _ = server;
      const call = client.call('listTemplates');
      await assert.rejects(call, { code: 'unexpected_response', message: /see that the address is Cloche's/ });
    }
  });

  it('an error says where nothing can be reached and what to do, in one sentence', async () => {
    const client = new ApiClient({
      url: `http://127.0.0.1:${CLOSED_PORT}`,
      apiKey: 'clk_test',
      maxRetries: 1,
      retryDelayMs: 1,
    });
    await assert.rejects(client.call('listTemplates'), {
      code: 'unreachable',
      message: `Cloche cannot be reached at http://127.0.0.1:${CLOSED_PORT} (ECONNREFUSED); see that it runs there, or set CLOCHE_URL to where it does.`,
    });
  });

  it("an error is the signal's own reason when the caller aborts, also between two attempts", async () => {
    const reason = new Error('no longer wanted');
    for (const reply of [() => {}, failing('unavailable', { 'retry-after': '20' })]) {
      const controller = new AbortController();
      const { server, client } = await setUp([
        (response, request) => {
          setTimeout(() => controller.abort(reason), 20);
          return reply(response, request);
        },
      ]);
      await using _ = server;
      await assert.rejects(client.call('createSandbox', { signal: controller.signal }), reason);
      assert.equal(server.requests.length, 1);
    }
    const { server, client } = await setUp([]);
    await using _ = server;
    await assert.rejects(client.call('createSandbox', { signal: AbortSignal.abort(reason) }), reason);
    assert.equal(server.requests.length, 0);
  });

  it('an error is deadline_exceeded when no answer comes in time', async () => {
    const { server, client } = await setUp([() => {}]);
    await using _ = server;
    const call = client.call('createSandbox', { timeoutMs: 50, idempotencyKey: 'k' });
    await assert.rejects(call, { code: 'deadline_exceeded', idempotencyKey: 'k', message: /within 50 ms/ });
  });

  it('an error does not count the time that the operation itself was given', async () => {
    const slow = await setUp(
      [
        (response, request) => {
          setTimeout(() => json(200, { run: sampleRun() })(response, request), 150);
        },
      ],
      { timeoutMs: 50 },
    );
    await using _ = slow.server;
    const body = { code: '1', language: 'python', timeoutMs: 5000 } as const;
    await slow.client.call('runCode', { params: { sandboxId: 'sbx_1' }, body });
  });
});

describe('the options', () => {
  it('the options name what is missing or wrong in one sentence without the key', () => {
    assert.throws(() => new ApiClient({ url: 'http://x', apiKey: '' }), {
      code: 'missing_api_key',
      message: 'No API key was given; pass `apiKey`, or set CLOCHE_API_KEY to the key of your installation.',
    });
    assert.throws(() => new ApiClient({ url: 'localhost:4680', apiKey: 'k' }), {
      code: 'invalid_options',
      message: '"localhost:4680" is not an HTTP address; give one such as http://127.0.0.1:4680.',
    });
    assert.throws(
      () => new ApiClient({ apiKey: 'clk_secret\nx' }),
      (error: Error) => isClocheError(error, 'invalid_options') && !error.message.includes('secret'),
    );
  });
});
