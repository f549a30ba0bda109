/** Sends requests over the Unix socket of a server to which a load balancer connects, which has no address of a client. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { pino } from 'pino';
import { BOOTSTRAP_KEY } from '../../testing/bootstrap-key.ts';
import { SERVER_SETTINGS } from '../../testing/server-settings.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import { type Server, startServer } from './compose.ts';
import { readConfig } from './config.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-unix-socket-'));
const { apiSocket } = runPaths(join(folder, 'run'), '1');
let server: Server;
before(async () => {
  const config = readConfig({
    ...(await testDatabaseSettings(join(folder, 'data'))),
    ...SERVER_SETTINGS,
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_RUN_DIR: join(folder, 'run'),
    CLOCHE_SERVER_NAME: '1',
    CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
    CLOCHE_E2B: 'on',
    CLOCHE_JUPYTER: 'on',
    CLOCHE_MCP: 'on',
    CLOCHE_RUN_APIS: 'piston',
  });
  server = await startServer(config, pino({ level: 'silent' }), new FakeRuntimeDriver());
});
after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true });
});

async function statusOf(method: string, path: string, headers: Readonly<Record<string, string>>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const options = { socketPath: apiSocket, method, path, headers: { host: 'localhost', ...headers }, agent: false };
  request(options, resolve).on('error', reject).end();
  const response = await promise;
  await response.resume().toArray();
  return response.statusCode ?? 0;
}

const WRONG = 'clk_guessed';
const REQUESTS: readonly (readonly [method: string, path: string, headers: Readonly<Record<string, string>>])[] = [
  ['GET', '/v1/sandboxes', {}],
  ['GET', '/v1/sandboxes', { authorization: `Bearer ${WRONG}` }],
  ['POST', '/v1/sandboxes', { authorization: `Bearer ${WRONG}` }],
  ['PATCH', '/v1/sandboxes', { authorization: `Bearer ${WRONG}` }],
  ['POST', '/mcp', { authorization: `Bearer ${WRONG}` }],
  ['GET', '/jupyter/api/kernels', { authorization: `token ${WRONG}` }],
  ['GET', '/e2b/v2/sandboxes', { 'x-api-key': WRONG }],
  ['POST', '/piston/api/v2/execute', { 'x-api-key': WRONG }],
];

describe('a request over a Unix socket', () => {
  for (const [method, path, headers] of REQUESTS) {
    for (const from of [undefined, '203.0.113.7', 'nonsense', '::ffff:203.0.113.7', 'unknown, 203.0.113.7']) {
      it(`a request over a Unix socket is refused with 401: ${method} ${path} ${Object.keys(headers)}, forwarded for ${from}`, async () => {
        const forwarded = from === undefined ? {} : { 'x-forwarded-for': from };
        assert.equal(await statusOf(method, path, { ...headers, ...forwarded }), 401);
      });
    }
  }

  it('a request over a Unix socket is answered with a key that works', async () => {
    assert.equal(await statusOf('GET', '/v1/sandboxes', { authorization: `Bearer ${BOOTSTRAP_KEY}` }), 200);
  });
});
