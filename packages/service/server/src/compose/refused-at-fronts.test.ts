/** How operators see requests that are refused before they have an operation, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { pino } from 'pino';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { BEFORE_KEY } from '../platform/http/front.ts';
import type { FrontName } from './fronts.ts';

interface Line {
  readonly requestId?: string;
  readonly [field: string]: unknown;
}
interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers: Record<string, string>;
}

const WRONG = 'clk_guessed';
const SWITCH = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};
const written: string[] = [];
let tenants: Tenants;
before(async () => {
  const log = pino({ level: 'debug' }, { write: (line: string) => written.push(line) });
  const settings = { CLOCHE_E2B: 'on', CLOCHE_JUPYTER: 'on', CLOCHE_MCP: 'on', CLOCHE_RUN_APIS: 'piston,dify' };
  tenants = await openTenants(settings, log);
});
after(() => tenants?.close());

/** Sends a request, and returns its answer and what the log says of it. */
async function refused({ method = 'POST', path, headers }: Sent): Promise<[status: number, line: Line]> {
  const { hostname, port } = new URL(tenants.server.url);
  const sent = request({ hostname, port, method, path, headers, agent: false }).on('error', () => undefined);
  sent.flushHeaders();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const id = answer.headers['x-request-id'];
  await text(answer);
  sent.destroy();
  return [answer.statusCode ?? 0, lineOf(String(id))];
}

function lineOf(requestId: string): Line {
  const lines = written.map((line) => JSON.parse(line) as Line).filter((line) => line.requestId === requestId);
  assert.equal(lines.length, 1, requestId);
  return lines[0] ?? {};
}

/** Returns the requests that failed with a code, and those that were answered with a status, of an operation. */
async function counted(operation: string, code: string, status: number): Promise<[failed: number, answered: number]> {
  const page = await (await fetch(`${tenants.server.url}/metrics`)).text();
  const read = (line: string) => Number(page.split(`${line} `)[1]?.split('\n')[0] ?? 0);
  return [
    read(`cloche_http_errors_total{operation="${operation}",code="${code}"}`),
    read(`cloche_http_request_duration_seconds_count{operation="${operation}",status="${status}"}`),
  ];
}

describe('a wrong key', () => {
  const GUESSES: readonly (readonly [FrontName, Sent])[] = [
    ['/e2b', { path: '/e2b/v2/sandboxes?a=b', headers: { 'x-api-key': WRONG } }],
    ['/mcp', { path: '/mcp', headers: { authorization: `Bearer ${WRONG}` } }],
    ['/jupyter', { path: `/jupyter/api/kernels?token=${WRONG}`, headers: {} }],
    ['/jupyter', { method: 'GET', path: `/jupyter/api/kernels/x/channels?token=${WRONG}`, headers: SWITCH }],
    ['run APIs', { path: '/piston/api/v2/execute', headers: { 'x-api-key': WRONG } }],
    ['run APIs', { path: '/dify/v1/sandbox/run', headers: { 'x-api-key': WRONG } }],
  ];
  for (const [front, sent] of GUESSES) {
    it(`a wrong key is logged and counted as at /v1: ${sent.path}`, async () => {
      const [failed, answered] = await counted(front, 'unauthorized', 401);
      const [status, line] = await refused(sent);
      assert.equal(status, 401);
      const { operation, method = 'POST', path, errorCode } = line;
      assert.deepEqual(
        { operation, method, path, status: line.status, errorCode },
        {
          operation: front,
          method: sent.method ?? 'POST',
          path: sent.path.split('?')[0],
          status,
          errorCode: 'unauthorized',
        },
      );
      assert.deepEqual(await counted(front, 'unauthorized', 401), [failed + 1, answered + 1]);
    });
  }

  it('a wrong key is in no line of the log', () => {
    assert.deepEqual(
      written.filter((line) => line.includes(WRONG)),
      [],
    );
  });
});

it('a body that is refused by its size is logged and counted, with the key that sent it', async () => {
  const headers = { 'x-api-key': tenants.keys.whole, 'content-type': 'application/json', 'content-length': '9999999' };
  const [status, line] = await refused({ path: '/e2b/v2/sandboxes', headers });
  assert.deepEqual([status, line.status, line.errorCode], [413, 413, 'payload_too_large']);
  assert.ok(line.orgId && line.apiKeyId, JSON.stringify(line));
  assert.deepEqual(await counted('/e2b', 'payload_too_large', 413), [1, 1]);
});

describe('what is no proper request', () => {
  it('what is no proper request is logged and counted, with its path if it has one', async () => {
    const [failed, answered] = await counted('none', 'invalid_request', 400);
    const many = Object.fromEntries(Array.from({ length: BEFORE_KEY.headFields + 1 }, (_, at) => [`x-${at}`, '']));
    const [status, line] = await refused({ method: 'GET', path: '/healthz', headers: many });
    assert.deepEqual([status, line.path, line.errorCode], [400, '/healthz', 'invalid_request']);
    const { hostname, port } = new URL(tenants.server.url);
    const socket = connect(Number(port), hostname);
    socket.write('hello\r\n\r\n');
    const id = /x-request-id: (\S+)/i.exec(await text(socket))?.[1] ?? '';
    assert.equal(lineOf(id).errorCode, 'invalid_request');
    assert.deepEqual(await counted('none', 'invalid_request', 400), [failed + 2, answered + 2]);
  });
});
