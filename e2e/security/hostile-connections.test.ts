/**
 * Random hostile connections, made from seeds, to each front of the service. `CLOCHE_FUZZ_SECONDS` sets how long,
 * `CLOCHE_FUZZ_SEED` repeats one connection.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Random } from '@cloche/testkit/fuzz';
import type { FrontName } from '../../packages/service/server/src/compose/fronts.ts';
import { connectionScript, type Target } from '../support/hostile/connection-script.ts';
import { assertGivenBack, heldBy } from '../support/hostile/held.ts';
import { playScript } from '../support/hostile/play-script.ts';
import { lastingSandbox, type Standing, standingDuring } from '../support/hostile/standing.ts';
import { ALL_PROTOCOLS, type OwnService, testService } from '../support/service.ts';

const SECONDS = Number(process.env.CLOCHE_FUZZ_SECONDS ?? 60);
const FIRST_SEED = Number(process.env.CLOCHE_FUZZ_SEED ?? Date.now() % 2 ** 31);
/** Connections at a time. */
const AT_ONCE = 12;
/** Time of the control, which sends honest requests only. */
const HONEST_SECONDS = 5;
/** Descriptors that the server may hold in addition: of connections to sandboxes and of files that it opened since. */
const MORE_DESCRIPTORS = 40;
/** Of garbage that is not collected yet. If each connection kept its buffers, growth would be many times that. */
const MORE_BYTES = 200 * 2 ** 20;
const MOST_TIMES_SLOWER = 5;
/** A time that counts as short whatever it is a multiple of: other processes take the processor for as long. */
const SHORT_MS = 100;

/** A row of the table of fronts, without those that other programs of the host alone can reach. */
type FrontOfThePort = Exclude<FrontName, `socket ${string}`>;
/** The name of a front, and requests to it. */
type Front = readonly [string, readonly [Target, ...Target[]]];

let service: OwnService;
let neighbour: string;
/** The sandboxes of this test, beside those that hostile connections create. */
let own: Set<string>;
let fronts: Readonly<Record<FrontOfThePort, readonly [Target, ...Target[]]>>;

before(async () => {
  service = await testService({ ...ALL_PROTOCOLS, CLOCHE_LOG_LEVEL: 'warn' });
  neighbour = await lastingSandbox(service.api, SECONDS);
  fronts = await targetsOf(service);
  own = new Set(await liveSandboxes());
});
after(() => service?.close());

/** Returns requests to each front that it accepts. */
async function targetsOf({ api, apiKey, url }: OwnService): Promise<typeof fronts> {
  const id = await lastingSandbox(api, SECONDS);
  await api.run(id, 'open("small", "w").write("x" * 1000)');
  const { preview } = (await api.post(`/v1/sandboxes/${id}/previews`, { port: 8000 })).body;
  const { port } = new URL(url);
  const host = `Host: 127.0.0.1:${port}\r\n`;
  const own = `${host}Authorization: Bearer ${apiKey}\r\n`;
  const keyed = `${host}X-API-Key: ${apiKey}\r\n`;
  const at = `/v1/sandboxes/${id}`;
  const get = (path: string, fields = own): Target => ({ method: 'GET', path, fields });
  const post = (path: string, body: unknown, fields = own): Target => {
    const key = `Idempotency-Key: ${randomUUID()}\r\n`;
    return { method: 'POST', path, fields: fields + key, body: JSON.stringify(body) };
  };
  const run = { code: '1 + 1', language: 'python' };
  const previewHost = `Host: ${new URL(preview.url).host}\r\n`;
  return {
    '/v1': [
      get('/v1/sandboxes'),
      get(at),
      get(`${at}/pty`),
      get('/v1/events/stream'),
      get(`${at}/files/watch?path=.`),
      post(`${at}/code/runs`, run),
      post(`${at}/code/runs/stream`, run),
      get('/v1/sandboxes', host),
      post('/v1/sandboxes', {}, host),
      get('/nowhere', host),
    ],
    '/v1, uploads': [
      { ...get(`${at}/files/content?path=up`), method: 'PUT', body: 'x' },
      { ...get('/v1/sandboxes/sbx_none/files/content?path=up'), method: 'PUT', body: 'x' },
    ],
    '/downloads': [get('/downloads/x?signature=x', host), get(`${at}/files/content?path=small`)],
    '/uploads': [{ ...get('/uploads/x?signature=x', host), method: 'PUT', body: 'x' }],
    '/e2b': [get('/e2b/sandboxes', keyed), get('/e2b/x', host), post('/e2b/sandboxes', { templateID: 'x' }, host)],
    '/e2b/template-files': [{ ...get('/e2b/template-files/x', host), method: 'PUT', body: 'x' }],
    '/e2b-box': [
      post('/e2b-box/process.Process/List', {}, host),
      post('/e2b-box/filesystem.Filesystem/Stat', {}, host),
    ],
    '/e2b-box/files': [get('/e2b-box/files?path=small', host), post('/e2b-box/files?path=x', 'x', host)],
    '/e2b-box/health': [get('/e2b-box/health', host)],
    '/files': [get('/files?path=small&signature=v1_x', host), post('/files?path=x', 'x', host)],
    'ports of E2B': [get('/', `Host: 8000-${id}.${new URL(preview.url).host.split('.').slice(1).join('.')}\r\n`)],
    previews: [get('/', previewHost), get('/', `${previewHost}X-Cloche-Preview-Token: ${preview.accessToken}\r\n`)],
    '/jupyter': [get('/jupyter/api/kernels'), get(`/jupyter/api/kernels/${id}/channels`), get('/jupyter/x', host)],
    '/jupyter, version and logos': [
      get('/jupyter/api', host),
      get('/jupyter/kernelspecs/python3/logo-64x64.png', host),
    ],
    '/mcp': [post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }), get('/mcp'), get('/mcp', host)],
    'run APIs': [
      post('/dify/v1/sandbox/run', {}, host),
      post('/piston/api/v2/execute', {}, host),
      get('/piston/api/v2/runtimes', host),
      post('/sandbox-fusion/run_code', { code: 'print(1)', language: 'python' }),
    ],
    '/dify/health': [get('/dify/health', host)],
    '/docs, /openapi.json': [get('/docs', host), get('/openapi.json', host), get('/', host)],
    '/healthz, /readyz, /metrics': [get('/healthz', host), get('/readyz', host), get('/metrics', host)],
  };
}

/** Plays connections until the time is over. Returns their number. */
async function attack(seconds: number, playing: Set<number>): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let seed = FIRST_SEED;
  const one = async () => {
    while (performance.now() < until) {
      const own = seed++;
      playing.add(own);
      await playSeed(own);
      playing.delete(own);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return seed - FIRST_SEED;
}

async function playSeed(seed: number): Promise<void> {
  const random = new Random(seed);
  const [first, ...others] = Object.entries(fronts);
  const [name, targets] = random.pick<Front>([first ?? assert.fail(), ...others]);
  const answers = await playScript({ port: Number(new URL(service.url).port) }, connectionScript(random, targets));
  assert.doesNotMatch(answers, /HTTP\/1\.1 500/, `seed ${seed}, ${name}: ${answers.slice(0, 4000)}`);
}

async function liveSandboxes(): Promise<string[]> {
  return (await service.api.get('/v1/sandboxes')).body.data.map(({ id }: { id: string }) => id);
}

/** Ends the sandboxes that connections have created by a method, path and key that happened to be right. */
async function endTheirs(): Promise<void> {
  for (const id of await liveSandboxes()) if (!own.has(id)) await service.api.delete(`/v1/sandboxes/${id}`);
}

async function honest(seconds: number): Promise<void> {
  const until = performance.now() + seconds * 1000;
  const one = async () => {
    while (performance.now() < until) {
      await service.api.get('/v1/sandboxes');
      await delay(20);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

const slowest = ({ healthMs }: Standing) => healthMs[Math.floor(healthMs.length * 0.99)] ?? Number.NaN;

it('hostile connections end no process, cut no stream, and everything that they took is given back', async (t) => {
  const pid = service.pid('server');
  const quiet = await standingDuring(service.api, neighbour, () => honest(HONEST_SECONDS));
  // What is loaded, compiled and pooled at first use is no growth.
  await attack(Math.min(SECONDS / 10, 20), new Set());
  const before = heldBy(pid);
  const playing = new Set<number>();
  let count = 0;
  let standing: Standing;
  try {
    standing = await standingDuring(service.api, neighbour, async () => {
      count = await attack(SECONDS, playing);
    });
  } catch (cause) {
    throw new Error(`CLOCHE_FUZZ_SEED of one of these does it again: ${[...playing].join(' ')}`, { cause });
  }
  t.diagnostic(
    `${count} connections from seed ${FIRST_SEED}; /healthz ${slowest(standing)} ms, honest ${slowest(quiet)} ms`,
  );
  assert.equal(service.pid('server'), pid);
  assert.deepEqual(standing.broken, []);
  assert.ok(standing.streams > 0);
  assert.ok(slowest(standing) <= Math.max(MOST_TIMES_SLOWER * slowest(quiet), SHORT_MS));
  await endTheirs();
  await assertGivenBack(pid, before, { descriptors: MORE_DESCRIPTORS, bytes: MORE_BYTES });
});
