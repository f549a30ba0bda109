import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { eventStream, frame, type ScriptedServer, startScriptedServer } from '@cloche/sdk/testing';
import { eventually } from '@cloche/testkit/eventually';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { pino } from 'pino';
import { McpRouter } from './mcp-router.ts';

let service: ScriptedServer;
let router: McpRouter;
let server: Server;
before(async () => {
  service = await startScriptedServer(() => eventStream([frame('stdout', 'first\nsecond\n')], { end: false }));
  const publicUrl = 'https://cloche.example';
  router = new McpRouter({ apiUrl: () => service.url, publicUrl, version: '1', log: pino({ level: 'silent' }) });
  server = createServer((request, response) => router.handle(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
after(async () => {
  await router.close();
  server.closeAllConnections();
  server.close();
  await service[Symbol.asyncDispose]();
});

for (const [revision, options] of Object.entries({
  '2026-07-28': { versionNegotiation: { mode: 'auto' as const } },
  '2025-11-25': {},
})) {
  describe(`a call over HTTP in the revision ${revision}`, () => {
    const call = { name: 'run_code', arguments: { sandboxId: 'sbx_1', code: '1' } };
    let client: Client;
    beforeEach(async () => {
      client = new Client({ name: 'test', version: '1' }, options);
      const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
      const headers = { authorization: 'Bearer clk_test' };
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
      assert.equal(client.getNegotiatedProtocolVersion(), revision);
    });

    it('tells progress with the output while code runs, and is canceled when its client leaves', async ({ mock }) => {
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

    it('is canceled when its client leaves, also if it has told no progress', async () => {
      const before = service.requests.length;
      const running = client.callTool(call);
      running.catch(() => undefined);
      await eventually(() => service.requests.length > before, { because: 'the code runs' });
      await client.close();
      await service.requests.at(-1)?.disconnected;
    });
  });
}

describe('a request of a page', () => {
  async function statusFor(origin: string): Promise<number> {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const headers = { authorization: 'Bearer clk_test', 'content-type': 'application/json', origin };
    const response = await fetch(url, { method: 'POST', headers, body: '{}' });
    await response.text();
    return response.status;
  }

  it('is refused with 403 if another site has the page', async () => {
    for (const origin of ['https://evil.example', 'http://localhost.evil.example', 'null', 'nonsense'])
      assert.equal(await statusFor(origin), 403, origin);
  });

  it('is answered if the machine itself or the service has the page', async () => {
    for (const origin of ['http://localhost:6274', 'http://127.0.0.1:1', 'http://[::1]:80', 'https://cloche.example'])
      assert.notEqual(await statusFor(origin), 403, origin);
  });
});
