import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxInfo } from '@cloche/sdk';
import { failing, json, type Reply, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const DAY_MS = 86_400_000;
const after = (ms: number) => new Date(Date.now() + ms).toISOString();

function pausedSandbox(changes: Partial<SandboxInfo> = {}): SandboxInfo {
  const paused = { at: after(-180_500), by: 'request', memory: 'kept', place: 'memory' } as const;
  return sampleSandbox({ status: 'idle', expiresAt: after(7 * DAY_MS), paused, ...changes });
}

/** Runs a command against a service that answers each request, and returns what was printed and sent. */
async function outcomeOf(args: readonly string[], answer: (path: string) => Reply) {
  await using server = await startScriptedServer(({ path }) => answer(path));
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  const outcome = await runInProcess([...args], { env });
  const sent = server.requests.map(({ method, path, body }) => [`${method} ${path}`, body] as const);
  return { ...outcome, sent };
}

it('cloche sandbox create sends the pauses that its options ask for, and get shows them', async () => {
  for (const [line, pause] of [
    ['', undefined],
    ['--pause-after 5m', { afterIdleMs: 300_000 }],
    ['--pause-on-expiry --retain 7d', { onExpiry: true, retainMs: 7 * DAY_MS }],
    ['--pause-on-expiry --pause-memory drop', { onExpiry: true, memory: 'drop' }],
    ['--wake explicit --wake-ttl 30m', { wake: 'explicit', wakeTtlMs: 1_800_000 }],
    ['--pause-after 1h --wake traffic', { afterIdleMs: 3_600_000, wake: 'traffic' }],
  ] as const) {
    const args = ['sandbox', 'create', '--no-wait', ...line.split(' ').filter(Boolean)];
    const { sent } = await outcomeOf(args, () => json(201, { sandbox: sampleSandbox() }));
    assert.deepEqual(sent, [['POST /v1/sandboxes', pause ? { pause } : {}]], line);
  }
  const policy = { ...sampleSandbox().pause, afterIdleMs: 300_000, onExpiry: true, wake: 'traffic' } as const;
  const shown = await outcomeOf(['sandbox', 'get', 'sbx_1'], () =>
    json(200, { sandbox: sampleSandbox({ pause: policy }) }),
  );
  assert.match(shown.stdout, /^pauses .*after 5 min without use and at its end, woken by requests and visitors/m);
  const { pause: _, ...older } = sampleSandbox();
  const ofOlder = await outcomeOf(['sandbox', 'get', 'sbx_1'], () => json(200, { sandbox: older }));
  assert.deepEqual([ofOlder.exitCode, /^pauses/m.test(ofOlder.stdout)], [0, false]);
});

describe('cloche sandbox pause and resume', () => {
  it('cloche sandbox pause and resume send what was given alone, for each of several sandboxes', async () => {
    for (const [line, bodies] of [
      ['pause sbx_1', { sbx_1: {} }],
      ['pause sbx_1 sbx_2 --force', { sbx_1: { force: true }, sbx_2: { force: true } }],
      ['pause --retain 7d sbx_1', { sbx_1: { retainMs: 7 * DAY_MS } }],
      ['pause sbx_1 --retain 1h30m --force', { sbx_1: { force: true, retainMs: 5_400_000 } }],
      ['pause sbx_1 --memory drop', { sbx_1: { memory: 'drop' } }],
      ['resume sbx_1', { sbx_1: {} }],
      ['resume sbx_1 --memory drop', { sbx_1: { memory: 'drop' } }],
      ['resume sbx_1 sbx_2 --ttl 30m', { sbx_1: { ttlMs: 1_800_000 }, sbx_2: { ttlMs: 1_800_000 } }],
    ] as const) {
      const verb = line.split(' ')[0];
      const { sent, exitCode } = await outcomeOf(['sandbox', ...line.split(' ')], () =>
        json(200, { sandbox: pausedSandbox() }),
      );
      const expected = Object.entries(bodies).map(([id, body]) => [`POST /v1/sandboxes/${id}/${verb}`, body]);
      assert.deepEqual([exitCode, sent.toSorted()], [0, expected], line);
    }
  });

  it('cloche sandbox pause and resume say until when the sandbox is kept or lives, and print nothing else', async () => {
    const paused = await outcomeOf(['sandbox', 'pause', 'sbx_1'], () => json(200, { sandbox: pausedSandbox() }));
    assert.match(paused.stderr, /^sbx_1 paused, ends in 7 d \(20\d\d-\d\d-\d\d \d\d:\d\d\)\n$/);
    const awake = sampleSandbox({ status: 'ready', expiresAt: after(1_800_000) });
    const resumed = await outcomeOf(['sandbox', 'resume', 'sbx_1'], () => json(200, { sandbox: awake }));
    assert.match(resumed.stderr, /^sbx_1 ready, ends in 30 min \(.*\d\d:\d\d\)\n$/);
    assert.deepEqual([paused.stdout, resumed.stdout], ['', '']);

    const asJson = await outcomeOf(['sandbox', 'resume', 'sbx_1', '--json'], () => json(200, { sandbox: awake }));
    assert.deepEqual([JSON.parse(asJson.stdout), asJson.stderr], [{ data: [awake] }, '']);
  });

  it('cloche sandbox pause and resume change the other sandboxes when one is refused, and say why it is', async () => {
    for (const [code, details, expected] of [
      ['conflict', { running: 2 }, /pause with --force\.\n$/],
      ['conflict', { reason: 'memory_unsupported' }, /cannot be kept here, so it cannot be paused\.\n$/],
      ['quota_exceeded', undefined, /`cloche quota` shows limits and use\.\n$/],
      ['sandbox_destroyed', undefined, /`cloche sandbox create` creates another one\.\n$/],
      ['not_found', { resource: 'sandbox' }, /`cloche sandbox list` shows what there is\.\n$/],
    ] as const) {
      const message = MESSAGES[JSON.stringify(details)] ?? 'No';
      const { exitCode, stderr } = await outcomeOf(['sandbox', 'pause', 'sbx_9', 'sbx_1'], (path) =>
        path.includes('/sbx_9/')
          ? json(409, { error: { code, message, requestId: 'req_1', ...(details && { details }) } })
          : json(200, { sandbox: pausedSandbox() }),
      );
      assert.equal(exitCode, 1, code);
      assert.match(stderr, /^sbx_1 paused/m, code);
      assert.match(stderr, expected, code);
    }
  });

  it('cloche sandbox pause and resume name the option that a refused field is given by', async () => {
    for (const [line, path, message, expected] of [
      ['pause --retain 1s', 'body.retainMs', 'must be >= 60000', '--retain must be >= 1 min'],
      ['pause --retain 40d', 'body.retainMs', 'must be <= 2592000000', '--retain must be <= 30 d'],
      ['resume --ttl 25h', 'body.ttlMs', 'must be at most 86400000', '--ttl must be at most 1 d'],
    ] as const) {
      const { stderr } = await outcomeOf(['sandbox', ...line.split(' '), 'sbx_1'], () =>
        failing('invalid_request', {}, { issues: [{ path, message }] }),
      );
      assert.equal(stderr, `error: ${expected}\n`);
    }
  });

  it('cloche sandbox pause and resume refuse what is no duration or no sandbox, before a request', async () => {
    for (const [line, expected] of [
      ['pause', /missing required argument 'sandboxes'/i],
      ['resume', /missing required argument 'sandboxes'/i],
      ['pause sbx_1 --retain 7', /Write it as 90s, 10m or 1h30m/],
      ['pause sbx_1 --retain 0s', /Write it as 90s, 10m or 1h30m/],
      ['resume sbx_1 --ttl -1h', /--ttl|Write it/],
      ['resume sbx_1 --force', /Unknown option '--force'/],
      ['pause sbx_1 --memory restore', /Allowed choices are keep, prefer, drop/],
      ['pause sbx_1 --ttl 1h', /Unknown option '--ttl'/],
    ] as const) {
      const { exitCode, stderr, sent } = await outcomeOf(['sandbox', ...line.split(' ')], () => json(200, {}));
      assert.deepEqual([exitCode, sent.length], [2, 0], `${line}: ${stderr}`);
      assert.match(stderr, expected, line);
    }
  });
});

/** What the service says, by the details of the error. */
const MESSAGES: Readonly<Record<string, string>> = {
  '{"running":2}':
    'The sandbox "sbx_9" has 2 code runs or waited commands in progress; wait for them, or pause with force.',
  '{"reason":"memory_unsupported"}': 'The memory of the sandbox "sbx_9" cannot be kept here, so it cannot be paused.',
};

describe('a paused sandbox', () => {
  it('a paused sandbox is shown as one by lists, alone and in its description', async () => {
    const awake = sampleSandbox({
      id: 'sbx_2',
      status: 'idle',
      createdAt: after(-61_000),
      expiresAt: after(3_599_000),
    });
    const data = [pausedSandbox({ createdAt: after(-61_000) }), awake];
    const listed = await outcomeOf(['sandbox', 'list', '--paused'], () => json(200, { data, hasMore: false }));
    assert.deepEqual(listed.stdout.split('\n'), [
      'ID     STATUS         TEMPLATE     NETWORK       CREATED    LEFT  METADATA',
      'sbx_1  idle (paused)  python-node  unrestricted  1 min ago  7 d',
      'sbx_2  idle           python-node  unrestricted  1 min ago  1 h',
      '',
    ]);
    assert.equal(listed.sent[0]?.[0], 'GET /v1/sandboxes?paused=true');

    const { stdout } = await outcomeOf(['sandbox', 'get', 'sbx_1'], () => json(200, { sandbox: data[0] }));
    assert.match(stdout, /^status +idle \(paused\)$/m);
    assert.match(stdout, /^paused +3 min ago \(20.*Z\), memory kept$/m);
    assert.match(stdout, /^ends +in 7 d \(/m);
    const other = await outcomeOf(['sandbox', 'get', 'sbx_2'], () => json(200, { sandbox: awake }));
    assert.doesNotMatch(other.stdout, /paused/);
  });
});
