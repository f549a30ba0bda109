/**
 * Tries each limit of the table of fronts, and compares its documentation. The server is whole, with a fake runtime;
 * hostd and egress serve their own sockets, with nothing behind them.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request, type Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { openControlServer } from '../../../../host/egress/src/control/control-server.ts';
import { appOf } from '../../../../host/hostd/testing/app-of.ts';
import { BOX, type E2bBox, E2bBoxes } from '../../testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { BEFORE_KEY, type Front } from '../platform/http/front.ts';
import { FRONTS, type FrontName } from './fronts.ts';

/** How a test reaches a front. */
interface Way {
  readonly method?: string;
  readonly path: string;
  /** Opens the front. */
  readonly fields?: Record<string, string>;
  /** Takes the place of the path without what opens the front. */
  readonly closedPath?: string;
  /** Status without what opens it; default 401 or 403. */
  readonly closed?: number;
  readonly type?: string;
  /** Path of a Unix socket. */
  readonly socket?: string;
  /** Answered on that socket. */
  readonly asked?: string;
  readonly server?: Server;
  /** Begins a body of JSON, whose next value is added. */
  readonly json?: string;
}

/** Bodies above this size are announced and not sent. */
const SENT_BYTES = 32 * 2 ** 20;

const open = new AsyncDisposableStack();
let tenants: Tenants;
let box: E2bBox;
let ways: Record<FrontName, Way>;
before(async () => {
  tenants = await openTenants({
    CLOCHE_E2B: 'on',
    CLOCHE_JUPYTER: 'on',
    CLOCHE_MCP: 'on',
    CLOCHE_RUN_APIS: 'dify,piston,sandbox-fusion',
  });
  open.defer(() => tenants.close());
  box = await new E2bBoxes(tenants.server.url).create(tenants.keys.whole, { network: { allowPublicTraffic: false } });
  ways = { ...waysOf(), ...(await waysOfOthers()), ...(await openedWays()) };
});
after(() => open.disposeAsync());

type OfOthers = 'socket of hostd' | 'socket of egress';
type Opened = 'previews' | '/e2b/template-files';

/** Starts the control sockets of hostd and of egress. */
async function waysOfOthers(): Promise<Record<OfOthers, Way>> {
  const [hostd, egress] = ['hostd.sock', 'egress.sock'].map((name) => join(tenants.folder, name)) as [string, string];
  const host = appOf({});
  open.defer(() => host.close());
  await host.listen({ path: hostd });
  const control = await openControlServer({
    socketPath: egress,
    sandboxes: {} as Parameters<typeof openControlServer>[0]['sandboxes'],
    authorityCertificate: '',
    registry: new Registry(),
    decisions: {} as Parameters<typeof openControlServer>[0]['decisions'],
    log: pino({ level: 'silent' }),
    isTrusted: () => true,
  });
  open.defer(() => control.close());
  const asked = 'GET /health';
  return {
    'socket of hostd': { path: '/measurements', socket: hostd, asked, server: host.server, json: '{"instances":' },
    'socket of egress': {
      method: 'PUT',
      path: '/sandboxes',
      socket: egress,
      asked,
      server: control.server,
      json: '{"sandboxes":',
    },
  };
}

/** Opens fronts whose tokens the server gives out. */
async function openedWays(): Promise<Record<Opened, Way>> {
  const { whole } = tenants.keys;
  const at = `/v1/sandboxes/${box.sandboxId}/previews`;
  const { preview } = (await tenants.call(whole, 'POST', at, { body: { port: 8000 }, idempotencyKey: 'front' })).body;
  const files = `/e2b/templates/x/files/${'0'.repeat(64)}`;
  const upload = (await tenants.call(whole, 'GET', files, { headers: { 'x-api-key': whole } })).body;
  const { pathname, search } = new URL(upload.url);
  return {
    previews: {
      path: '/',
      fields: { host: new URL(preview.url).host, 'x-cloche-preview-token': preview.accessToken },
      type: 'application/octet-stream',
    },
    '/e2b/template-files': {
      method: 'PUT',
      path: pathname + search,
      closedPath: `${pathname}?token=x`,
      type: 'application/octet-stream',
    },
  };
}

function waysOf(): Record<Exclude<FrontName, OfOthers | Opened>, Way> {
  const key = tenants.keys.whole;
  const bearer = { authorization: `Bearer ${key}` };
  const boxFields = new E2bBoxes(tenants.server.url).headers(box, BOX);
  const octets = 'application/octet-stream';
  const get = (path: string): Way => ({ method: 'GET', path, closed: 200 });
  const { operatorSocket, secretsSocket } = runPaths(join(tenants.folder, 'run'));
  const { port } = new URL(tenants.server.url);
  const ofPort = { host: `8000-${box.sandboxId}.localhost:${port}` };
  const signature = `v1_${hash('sha256', `/tmp/x:write::${box.token}`, 'base64').replace(/=+$/, '')}`;
  return {
    '/v1': { path: '/v1/sandboxes', fields: { ...bearer, 'idempotency-key': 'front' }, json: '{"more":' },
    '/v1, uploads': {
      method: 'PUT',
      path: `/v1/sandboxes/${box.sandboxId}/files/content?path=/workspace/x`,
      fields: bearer,
      type: octets,
    },
    '/downloads': { method: 'GET', path: '/downloads/artifacts/art_1' },
    '/uploads': { method: 'PUT', path: '/uploads/workspace-archives/tra_1' },
    '/e2b': { path: '/e2b/v2/sandboxes', fields: { 'x-api-key': key }, json: '{"templateID":"base","more":' },
    '/e2b-box': { path: '/e2b-box/filesystem.Filesystem/Stat', fields: boxFields, json: '{"path":"/","more":' },
    '/e2b-box/files': { path: '/e2b-box/files?path=/workspace/x', fields: boxFields, type: octets },
    '/e2b-box/health': {
      ...get('/e2b-box/health'),
      fields: { 'e2b-sandbox-id': box.sandboxId },
      // Without an id, it is that of no sandbox.
      closed: 502,
    },
    '/files': {
      path: `/files?${new URLSearchParams({ path: '/tmp/x', signature })}`,
      closedPath: '/files?path=/tmp/x',
      type: octets,
    },
    'ports of E2B': { path: '/', fields: { ...ofPort, 'e2b-traffic-access-token': box.token } },
    '/jupyter': { path: '/jupyter/api/kernels', fields: { authorization: `token ${key}` }, json: '{"name":' },
    '/jupyter, version and logos': get('/jupyter/api'),
    '/mcp': { path: '/mcp', fields: bearer, json: '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' },
    'run APIs': { path: '/piston/api/v2/execute', fields: { 'x-api-key': key }, json: '{"language":' },
    '/dify/health': get('/dify/health'),
    '/docs, /openapi.json': get('/openapi.json'),
    '/healthz, /readyz, /metrics': get('/healthz'),
    'socket of operators': { path: '/orgs', socket: operatorSocket, asked: 'GET /orgs', json: '{"name":' },
    'socket for secrets': { path: '/values', socket: secretsSocket, asked: 'GET /none', json: '{"questions":' },
  };
}

interface Sent {
  readonly fields?: Record<string, string>;
  readonly path?: string;
  /** Undefined: nothing but the head is sent. */
  readonly body?: string;
}

/** Sends a request by a way, and returns the answer without waiting for the end of the body. */
async function send(way: Way, { fields = {}, path = way.path, body }: Sent): Promise<[status: number, body: string]> {
  const { hostname, port } = new URL(tenants.server.url);
  const target = way.socket === undefined ? { hostname, port } : { socketPath: way.socket };
  const headers = { 'content-type': way.type ?? 'application/json', accept: '*/*, text/event-stream', ...fields };
  const sent = request({ ...target, method: way.method ?? 'POST', path, agent: false, headers });
  sent.on('error', () => undefined);
  if (body === undefined) sent.flushHeaders();
  else sent.end(body);
  const [answer] = (await once(sent, 'response', { signal: AbortSignal.timeout(60_000) })) as [IncomingMessage];
  const answered = await text(answer);
  sent.destroy();
  return [answer.statusCode ?? 0, answered];
}

const fronts: [FrontName, Front][] = Object.entries(FRONTS).map(([name, front]) => [name as FrontName, front]);
const inMs = (seconds: unknown) => Number(seconds) * 1000;
const isAtPort = ({ connections }: Front) => connections === 'by address';

describe('the front', () => {
  for (const [name, front] of fronts) {
    const { bytes, jsonValues, jsonLevels } = front.body;

    if (isAtPort(front)) {
      it(`${name} reads nothing but the head of a request without what opens it`, async () => {
        const { closed, closedPath, method, fields = {} } = ways[name];
        const { host } = fields;
        const size = method === 'GET' ? {} : { 'content-length': '1000000' };
        const [status, body] = await send(ways[name], {
          fields: { ...size, ...(host !== undefined && { host }) },
          ...(closedPath !== undefined && { path: closedPath }),
        });
        if (closed === undefined) assert.ok(status === 401 || status === 403, `${status} ${body}`);
        else assert.equal(status, closed, body);
      });
    } else {
      it(`${name} has at most ${front.pipelined} unanswered requests of a connection`, async () => {
        const { socket = '', asked } = ways[name];
        const connection = connect(socket).on('error', () => undefined);
        connection.write(`${asked} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(3 * front.pipelined));
        assert.equal((await text(connection)).match(/HTTP\/1\.1 \d/g)?.length, front.pipelined);
      });
    }

    // For the sockets of the server, `front.test.ts` has this.
    if (name === 'socket of hostd' || name === 'socket of egress') {
      it(`${name} waits for a head for ${front.before.seconds} s, and for a body for ${front.body.seconds} s`, () => {
        const { headersTimeout, requestTimeout, keepAliveTimeout } = ways[name].server ?? assert.fail();
        // Its clients keep their connections, and lose a request if one is closed meanwhile.
        assert.ok(keepAliveTimeout > 60_000, `${keepAliveTimeout}`);
        assert.deepEqual([headersTimeout, requestTimeout], [front.before.seconds, front.body.seconds].map(inMs));
      });
    }

    it(`${name} takes ${front.before.headFields} fields and ${front.before.headBytes} bytes of head, and no more`, async () => {
      const { host } = ways[name].fields ?? {};
      const more = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, '']));
      const own = host === undefined ? {} : { host };
      const many = await send(ways[name], { fields: { ...own, ...more(front.before.headFields) }, body: '' });
      assert.match(many[1], /headers are more than 256/);
      const fewer = await send(ways[name], { fields: { ...own, ...more(front.before.headFields - 10) }, body: '' });
      assert.doesNotMatch(fewer[1], /headers are more/);
      const [status] = await send(ways[name], { fields: { ...own, 'x-long': 'x'.repeat(front.before.headBytes) } });
      assert.equal(status, 400);
    });

    if (typeof bytes === 'number' && bytes > 0) {
      it(`${name} takes a body of ${bytes} bytes, and not one more`, async () => {
        const { fields = {}, json } = ways[name];
        const tooLarge = await send(ways[name], { fields: { ...fields, 'content-length': String(bytes + 1) } });
        assert.ok(isTooLarge(tooLarge), tooLarge.join(' '));
        if (json === undefined || bytes > SENT_BYTES) return;
        const whole = `${json}1}`;
        const chunked = await send(ways[name], {
          fields: { ...fields, 'transfer-encoding': 'chunked' },
          body: whole.padEnd(bytes + 1),
        });
        assert.ok(isTooLarge(chunked), chunked.join(' '));
        const largest = await send(ways[name], { fields, body: whole.padEnd(bytes) });
        assert.ok(!isTooLarge(largest), largest.join(' '));
      });
    }

    if (jsonValues > 0) {
      it(`${name} takes JSON of ${jsonValues} values and ${jsonLevels} levels, and no more`, async () => {
        const { fields = {}, json = '' } = ways[name];
        const values = Math.min(jsonValues + 64 * 1024, Number(bytes) / 2 - 64);
        assert.ok(values > jsonValues);
        const wide = `${json}[${'0,'.repeat(values)}0]}`;
        const nested = (levels: number) => `${json}${'['.repeat(levels)}${']'.repeat(levels)}}`;
        for (const body of [wide, nested(jsonLevels)]) {
          const [status, said] = await send(ways[name], { fields, body });
          assert.equal(status, 400, said);
          assert.match(said, /values|deep|levels|JSON/);
        }
        const [, said] = await send(ways[name], { fields, body: nested(jsonLevels - 1) });
        assert.doesNotMatch(said, TOO_DEEP);
      });
    }

    if (name !== '/v1' && isAtPort(front) && jsonValues > 0) {
      it(`${name} decompresses nothing`, async () => {
        const { fields = {} } = ways[name];
        const [status, body] = await send(ways[name], {
          fields: { ...fields, 'content-encoding': 'gzip' },
          body: '\u001f',
        });
        assert.ok(status >= 400 && ![401, 500].includes(status), `${status} ${body}`);
      });
    }
  }
});

/** Matches how fronts refuse JSON with too many levels. */
const TOO_DEEP = /levels|deep|not valid JSON|too many/;

/** Returns whether a body was refused by its size. Hostd and egress have one status for all that is wrong. */
function isTooLarge([status, said]: [status: number, body: string]): boolean {
  return status === 413 || (status === 400 && said.includes('body is too large'));
}

describe('docs/threat-model.md', () => {
  const section = /^## Fronts$(.*?)^## /ms.exec(readFileSync('docs/threat-model.md', 'utf8'))?.[1] ?? '';
  const rows = section.split('\n').filter((line) => /^\| /.test(line));

  it('docs/threat-model.md shows the table of fronts', () => {
    const [, ...shown] = rows;
    assert.deepEqual(
      shown,
      fronts.map(([name, front]) => rowOf(name, front)),
    );
  });
});

function rowOf(name: string, { opens, before: head, body, pays, reason }: Front): string {
  const size = (bytes: number) => (bytes % 2 ** 20 === 0 ? `${bytes / 2 ** 20} MiB` : `${bytes / 1024} KiB`);
  const kept = typeof body.bytes === 'number' ? (body.bytes === 0 ? 'none' : size(body.bytes)) : 'streamed';
  const json =
    body.jsonValues === 0 ? '' : `, JSON of ${body.jsonValues.toLocaleString('en')} values, ${body.jsonLevels} levels`;
  const zipped = body.decompressedBytes === 'any' ? ', gzip too' : '';
  const seconds = { stall: 'until it stalls', any: 'any' }[body.seconds as string] ?? `${body.seconds} s`;
  const isUsual = head === BEFORE_KEY;
  const early = isUsual ? '' : `${head.headFields} fields, ${head.seconds} s, the body`;
  const cells = [
    name,
    reason === undefined ? opens : `${opens}: ${reason}`,
    early,
    `${kept}${json}${zipped}`,
    seconds,
    pays,
  ];
  return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |');
}
