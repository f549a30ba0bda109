/** Tries each limit of the table of fronts against a whole server with a fake runtime, and compares its documentation. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { BOX, type E2bBox, E2bBoxes } from '../../testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';
import { BEFORE_KEY, type Front } from '../http/front.ts';
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
  readonly socket?: string;
  /** Begins a body of JSON, whose next value is added. */
  readonly json?: string;
}

let tenants: Tenants;
let box: E2bBox;
let ways: Record<FrontName, Way | undefined>;
before(async () => {
  tenants = await openTenants({
    CLOCHE_E2B: 'on',
    CLOCHE_JUPYTER: 'on',
    CLOCHE_MCP: 'on',
    CLOCHE_RUN_APIS: 'dify,piston,sandbox-fusion',
  });
  box = await new E2bBoxes(tenants.server.url).create(tenants.keys.whole);
  ways = waysOf();
});
after(() => tenants?.close());

function waysOf(): typeof ways {
  const key = tenants.keys.whole;
  const bearer = { authorization: `Bearer ${key}` };
  const boxFields = new E2bBoxes(tenants.server.url).headers(box, BOX);
  const octets = 'application/octet-stream';
  const get = (path: string): Way => ({ method: 'GET', path, closed: 200 });
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
    '/e2b/template-files': { method: 'PUT', path: '/e2b/template-files?token=x', type: octets },
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
    previews: undefined,
    '/jupyter': { path: '/jupyter/api/kernels', fields: { authorization: `token ${key}` }, json: '{"name":' },
    '/jupyter, version and logos': get('/jupyter/api'),
    '/mcp': { path: '/mcp', fields: bearer, json: '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' },
    'run APIs': { path: '/piston/api/v2/execute', fields: { 'x-api-key': key }, json: '{"language":' },
    '/dify/health': get('/dify/health'),
    '/docs, /openapi.json': get('/openapi.json'),
    '/healthz, /readyz, /metrics': get('/healthz'),
    'socket of operators': { path: '/orgs', socket: 'run/server/operator.sock', json: '{"name":' },
    'socket for secrets': undefined,
    'socket of hostd': undefined,
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
  const target = way.socket === undefined ? { hostname, port } : { socketPath: join(tenants.folder, way.socket) };
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
const isAtPort = ({ connections }: Front) => connections === 'by address';

describe('the front', () => {
  for (const [name, front] of fronts) {
    const { bytes, jsonValues, jsonLevels } = front.body;
    const wayOf = () => {
      const way = ways[name];
      assert.ok(way);
      return way;
    };

    if (isAtPort(front) && name !== 'previews') {
      it(`${name} reads nothing but the head of a request without what opens it`, async () => {
        const { closed, closedPath, method, fields = {} } = wayOf();
        const { host } = fields;
        const size = method === 'GET' ? {} : { 'content-length': '1000000' };
        const [status, body] = await send(wayOf(), {
          fields: { ...size, ...(host !== undefined && { host }) },
          ...(closedPath !== undefined && { path: closedPath }),
        });
        if (closed === undefined) assert.ok(status === 401 || status === 403, `${status} ${body}`);
        else assert.equal(status, closed, body);
      });

      it(`${name} takes ${front.before.headFields} fields and ${front.before.headBytes} bytes of head, and no more`, async () => {
        const { host } = wayOf().fields ?? {};
        const more = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-${at}`, '']));
        const own = host === undefined ? {} : { host };
        const many = await send(wayOf(), { fields: { ...own, ...more(front.before.headFields) }, body: '' });
        assert.match(many[1], /headers are more than 256/);
        const fewer = await send(wayOf(), { fields: { ...own, ...more(front.before.headFields - 10) }, body: '' });
        assert.doesNotMatch(fewer[1], /headers are more/);
        const [status] = await send(wayOf(), { fields: { ...own, 'x-long': 'x'.repeat(front.before.headBytes) } });
        assert.equal(status, 400);
      });
    }

    if (typeof bytes === 'number' && jsonValues > 0 && name !== 'socket for secrets') {
      it(`${name} takes a body of ${bytes} bytes, and not one more`, async () => {
        const { fields = {}, json = '' } = wayOf();
        const whole = `${json}1}`;
        const tooLarge = await send(wayOf(), { fields: { ...fields, 'content-length': String(bytes + 1) } });
        assert.ok(isRefused(tooLarge, 413), tooLarge.join(' '));
        const chunked = await send(wayOf(), {
          fields: { ...fields, 'transfer-encoding': 'chunked' },
          body: whole.padEnd(bytes + 1),
        });
        assert.ok(isRefused(chunked, 413), chunked.join(' '));
        const largest = await send(wayOf(), { fields, body: whole.padEnd(bytes) });
        assert.ok(!isRefused(largest, 413), largest.join(' '));
      });

      it(`${name} takes JSON of ${jsonValues} values and ${jsonLevels} levels, and no more`, async () => {
        const { fields = {}, json = '' } = wayOf();
        const wide = `${json}[${'0,'.repeat(jsonValues + 64 * 1024)}0]}`;
        const deep = `${json}${'['.repeat(jsonLevels)}${']'.repeat(jsonLevels)}}`;
        for (const body of [wide, deep]) {
          const refused = await send(wayOf(), { fields, body });
          assert.ok(isRefused(refused, 400), refused.join(' '));
          assert.match(refused[1], /values|deep|levels|JSON/);
        }
      });
    }

    if (name !== '/v1' && isAtPort(front) && jsonValues > 0) {
      it(`${name} decompresses nothing`, async () => {
        const { fields = {} } = wayOf();
        const [status, body] = await send(wayOf(), {
          fields: { ...fields, 'content-encoding': 'gzip' },
          body: '\u001f',
        });
        assert.ok(status >= 400 && ![401, 500].includes(status), `${status} ${body}`);
      });
    }
  }
});

/** Dify's protocol is not among these: the others have the status that they mean. */
function isRefused([status]: [status: number, body: string], expected: number): boolean {
  return status === expected;
}

describe('docs/threat-model.md', () => {
  const section = /^## Fronts$(.*?)^## /ms.exec(readFileSync('docs/threat-model.md', 'utf8'))?.[1] ?? '';
  const rows = section.split('\n').filter((line) => /^\| /.test(line));

  it('shows the table of fronts', () => {
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
