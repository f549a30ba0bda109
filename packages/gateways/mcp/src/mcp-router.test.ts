import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import { eventStream, frame, json, type Reply, type ScriptedServer, type SeenRequest } from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import type { Client } from '@modelcontextprotocol/client';
import { REVISIONS, startRouter } from '../testing/start-router.ts';
import { TOOLS } from './mcp-server.ts';

const runThatGoesOn = eventStream([frame('stdout', 'first\nsecond\n')], { end: false });
let reply: (request: SeenRequest) => Reply = () => runThatGoesOn;
let router: Awaited<ReturnType<typeof startRouter>>;
let service: ScriptedServer;
before(async () => {
  router = await startRouter((request) => reply(request));
  ({ service } = router);
});
after(() => router[Symbol.asyncDispose]());

for (const [revision, options] of Object.entries(REVISIONS)) {
  describe(`a call over HTTP in the revision ${revision}`, () => {
    const call = { name: 'run_code', arguments: { sandboxId: 'sbx_1', code: '1' } };
    let client: Client;
    beforeEach(async () => {
      client = await router.connect(options);
      assert.equal(client.getNegotiatedProtocolVersion(), revision);
    });

    it(`a call over HTTP in the revision ${revision} tells progress with the output while code runs, and is canceled when its client leaves`, async ({
      mock,
    }) => {
      // No message while nothing is printed: its failure would end the call, too.
      mock.timers.enable({ apis: ['setInterval'] });
      const messages: string[] = [];
      const onprogress = ({ message = '' }) => messages.push(message);
      const running = client.callTool(call, { onprogress });
      running.catch(() => undefined);
      await eventually(() => messages.includes('second'), { because: 'the output is reported while the run goes on' });
      await client.close();
      await assert.rejects(running);
      await service.requests.at(-1)?.disconnected;
    });

    it(`a call over HTTP in the revision ${revision} is canceled when its client says so, and stays connected`, async () => {
      const before = service.requests.length;
      const canceling = new AbortController();
      const running = client.callTool(call, { signal: canceling.signal });
      running.catch(() => undefined);
      await eventually(() => service.requests.length > before, { because: 'the code runs' });
      canceling.abort();
      await assert.rejects(running);
      await service.requests.at(-1)?.disconnected;
      assert.ok((await client.listTools()).tools.length > 0);
    });

    it(`a call over HTTP in the revision ${revision} is canceled when its client leaves, also if it has told no progress`, async () => {
      const before = service.requests.length;
      const running = client.callTool(call);
      running.catch(() => undefined);
      await eventually(() => service.requests.length > before, { because: 'the code runs' });
      await client.close();
      await service.requests.at(-1)?.disconnected;
    });
  });
}

async function post(body: string, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(router.url, {
    method: 'POST',
    headers: {
      authorization: 'Bearer clk_test',
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...headers,
    },
    body,
    ...(signal && { signal }),
  });
}

function callOf(name: string, args: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } });
}

describe('a message that cancels a request', () => {
  const run = (id: unknown) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'run_code', arguments: { sandboxId: 'sbx_1', code: '1' } },
    });
  const cancel = (requestId: unknown, headers: Record<string, string> = {}) =>
    post(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }), headers);

  /** Starts a request, and returns its run at the service and what ends it. */
  async function started(id: unknown, signal?: AbortSignal) {
    const before = service.requests.length;
    const answered = post(run(id), {}, signal).then(
      (response) => response.text(),
      () => 'left',
    );
    await eventually(() => service.requests.length > before, { because: 'the code runs' });
    return { run: service.requests.at(-1) ?? assert.fail(), answered };
  }

  it('a message that cancels a request ends the one with its id, key and client, of whichever type the id is', async () => {
    for (const id of [7, 0, -1, '7', 'seven', '']) {
      const { run, answered } = await started(id);
      assert.equal((await cancel(id)).status, 202, String(id));
      await run.disconnected;
      await answered;
    }
  });

  it('a message that cancels a request ends no other one', async () => {
    const { run, answered } = await started(7);
    let isOver = false;
    void answered.then(() => {
      isOver = true;
    });
    const OTHERS: [unknown, Record<string, string>?][] = [
      [8],
      ['7'],
      [null],
      [undefined],
      [{}],
      [[7]],
      ['x'.repeat(10_000)],
      [7, { authorization: 'Bearer clk_other' }],
      [7, { 'user-agent': 'another client' }],
    ];
    for (const [id, headers] of OTHERS) await (await cancel(id, headers)).text();
    for (const body of ['{"jsonrpc":"2.0","method":"notifications/cancelled"}', '[]', '5'])
      await (await post(body)).text();
    assert.equal(isOver, false);
    await cancel(7);
    await run.disconnected;
    await answered;
  });

  it('a message that cancels a request ends none if two clients with one key have a request with its id', async () => {
    const leaving = new AbortController();
    const [one, two] = [await started(7, leaving.signal), await started(7, leaving.signal)];
    let over = 0;
    for (const { answered } of [one, two]) void answered.then(() => over++);
    assert.equal((await cancel(7)).status, 202);
    await (await post(callOf('nothing', {}))).text();
    assert.equal(over, 0);
    leaving.abort();
    await Promise.all([one.run.disconnected, two.run.disconnected]);
    const again = await started(7);
    await cancel(7);
    await again.run.disconnected;
    await again.answered;
  });
});

describe('the body of a request', () => {
  const writing = (bytes: number) => callOf('file_write', { sandboxId: 'sbx_1', path: 'a', text: 'x'.repeat(bytes) });
  const MIB = 2 ** 20;

  it('the body of a request may have 8 MiB, with a text of nearly as much, and no more', async (t) => {
    t.after(() => {
      reply = () => runThatGoesOn;
    });
    const file = { path: '/workspace/a', type: 'file', sizeBytes: 1, modifiedAt: '2026-01-01T00:00:00.000Z' };
    reply = () => json(200, { file });
    const taken = await post(writing(7.9 * MIB));
    assert.deepEqual([taken.status, /isError/.test(await taken.text())], [200, false]);
    const written = service.requests.at(-1)?.bytes.length;
    assert.equal(written, Math.floor(7.9 * MIB));
    const refused = await post(writing(8 * MIB));
    assert.equal(refused.status, 413);
    assert.match(await refused.text(), /must not exceed 8388608 bytes/);
  });

  const deep = `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`;
  const UNREAD: Readonly<Record<string, string>> = {
    'half a document': '{"jsonrpc"',
    'nothing at all': '',
    'values nested too deep': `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":${deep}}}`,
    'too many values': `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"a":[${'[],'.repeat(20_000)}1]}}}`,
  };
  for (const [name, body] of Object.entries(UNREAD)) {
    it(`the body of a request is refused, and not answered by a tool, if it is ${name}`, async () => {
      const response = await post(body);
      assert.equal(response.status, 400);
      assert.match(await response.text(), /"code":-32700/);
    });
  }
});

describe('a request that is none of the web', () => {
  async function statusOf(method: string, host: string): Promise<number | undefined> {
    const { port } = new URL(router.url);
    const headers = { authorization: 'Bearer clk_test', 'content-type': 'application/json', host };
    const asked = request({ host: '127.0.0.1', port, path: '/mcp', method, headers });
    asked.end(method === 'POST' ? callOf('file_read', {}) : '');
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  }

  it('a request that is none of the web is refused, and fails nothing, whatever its method', async () => {
    for (const method of ['GET', 'HEAD', 'TRACE', 'PUT', 'M-SEARCH', 'QUERY'])
      assert.equal(await statusOf(method, 'localhost'), 405, method);
    assert.equal(await statusOf('DELETE', 'localhost'), 400, 'DELETE without a session');
  });

  it('a request that is none of the web is refused, and fails nothing, whatever its host', async () => {
    for (const host of ['a b', '[', ':::', 'x:99999999', '%', '<>'])
      assert.equal(await statusOf('POST', host), 400, host);
  });
});

describe('a file that a tool reads', () => {
  it('a file that a tool reads is no longer read once it has more than 1 MiB, whatever its size was said to be', async (t) => {
    t.after(() => {
      reply = () => runThatGoesOn;
    });
    reply = () => async (response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      // Endless: as a program in the sandbox can make it.
      const piece = Buffer.alloc(64 * 1024, 'x');
      const endless = new Readable({ read: () => endless.push(piece) });
      await pipeline(endless, response).catch(() => undefined);
    };
    const response = await post(callOf('file_read', { sandboxId: 'sbx_1', path: 'a' }));
    const answer = await response.text();
    assert.match(answer, /"isError":true/);
    assert.match(answer, /a has more than 1048576 bytes/);
    await service.requests.at(-1)?.disconnected;
  });
});

describe('a list of artifacts', () => {
  it('a list of artifacts is one page of the service, and not the artifacts of the whole organization', async (t) => {
    t.after(() => {
      reply = () => runThatGoesOn;
    });
    reply = () => json(200, { data: [], hasMore: true, nextCursor: 'more' });
    assert.equal((await post(callOf('artifact_list', {}))).status, 200);
    const { path } = service.requests.at(-1) ?? assert.fail('a request reached /v1');
    assert.equal(new URLSearchParams(path.split('?')[1]).get('limit'), '100');
  });
});

describe('the tools', () => {
  it('the tools are described once, however many requests ask for them', () => {
    for (const { name, input, output } of TOOLS) {
      for (const make of [input['~standard'].jsonSchema.input, output['~standard'].jsonSchema.output]) {
        const [first, second] = [make({ target: 'draft-2020-12' }), make({ target: 'draft-2020-12' })];
        assert.ok(first.properties !== undefined, name);
        assert.equal(first.properties, second.properties, name);
      }
    }
  });
});

describe('a request of a page', () => {
  async function statusFor(origin: string): Promise<number> {
    const headers = { authorization: 'Bearer clk_test', 'content-type': 'application/json', origin };
    const response = await fetch(router.url, { method: 'POST', headers, body: '{}' });
    await response.text();
    return response.status;
  }

  it('a request of a page is refused with 403 if another site has the page', async () => {
    for (const origin of ['https://evil.example', 'http://localhost.evil.example', 'null', 'nonsense'])
      assert.equal(await statusFor(origin), 403, origin);
  });

  it('a request of a page is answered if the machine itself or the service has the page', async () => {
    for (const origin of ['http://localhost:6274', 'http://127.0.0.1:1', 'http://[::1]:80', 'https://cloche.example'])
      assert.notEqual(await statusFor(origin), 403, origin);
  });
});
