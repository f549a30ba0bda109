import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { unboundedParts } from '@cloche/testkit/unbounded-parts';
import { pino } from 'pino';
import { z } from 'zod';
import { RUN_APIS, type RunApi, RunApisRouter } from './run-apis-router.ts';

const APIS = Object.keys(RUN_APIS) as RunApi[];
const PATHS: Readonly<Record<RunApi, string>> = {
  dify: '/dify/v1/sandbox/run',
  piston: '/piston/api/v2/execute',
  'sandbox-fusion': '/sandbox-fusion/run_code',
};

let router: RunApisRouter;
let server: Server;
before(async () => {
  // Nothing here may reach `/v1`.
  const apiUrl = () => assert.fail('a request reached /v1');
  router = await RunApisRouter.open({ apiUrl, log: pino({ level: 'silent' }) }, APIS);
  server = createServer((request, response) => router.handle(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
after(async () => {
  await router.close();
  server.closeAllConnections();
  server.close();
});

const urlOf = (api: RunApi) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATHS[api]}`;

describe('the body of a run API', () => {
  for (const [api, { body }] of Object.entries(RUN_APIS)) {
    it(`the body of a run API has a maximum for each text, list and number of fields: ${api}`, () => {
      assert.deepEqual(unboundedParts(z.toJSONSchema(body, { io: 'input' })), []);
    });
  }

  for (const api of APIS) {
    it(`the body of a run API is not read without a key: ${api}`, async () => {
      const headers = { 'content-type': 'application/json', 'content-length': 1_000_000 };
      const begun = httpRequest(urlOf(api), { method: 'POST', headers });
      begun.on('error', () => undefined).flushHeaders();
      const [response] = (await once(begun, 'response')) as [IncomingMessage];
      assert.equal(response.statusCode, 401);
      begun.destroy();
    });

    it(`the body of a run API is refused if its JSON has too many values or levels: ${api}`, async () => {
      const deep = '['.repeat(20_000) + ']'.repeat(20_000);
      for (const body of [`{"code":${deep}}`, `{"code":[${'[],'.repeat(20_000)}1]}`]) {
        const headers = { 'content-type': 'application/json', 'x-api-key': 'clk_test' };
        const response = await fetch(urlOf(api), { method: 'POST', headers, body });
        assert.match(await response.text(), /that can be read: the JSON has more than/);
      }
    });
  }

  it('the body of a run API names a version of at most 256 characters, because ranges take time', async () => {
    const body = { language: 'python', version: '1 '.repeat(80_000), files: [{ content: '' }] };
    const headers = { 'content-type': 'application/json', 'x-api-key': 'clk_test' };
    const response = await fetch(urlOf('piston'), { method: 'POST', headers, body: JSON.stringify(body) });
    assert.equal(response.status, 400);
    assert.match(await response.text(), /version/);
  });
});
