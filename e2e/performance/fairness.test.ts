/**
 * Compares a sandbox of one organization with and without attacks by fifty sandboxes of another. Only ratios are
 * asserted.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { figuresOf } from '../../bench/src/statistics.ts';
import { timed } from '../../bench/src/timing.ts';
import { Api } from '../support/api.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';

const ATTACKERS = 50;
/**
 * Largest ratio of the 95th percentiles of create, run and destroy together. The target is 3, which is not reached: 4
 * to 6, and once 11, on a quiet machine of two processors; 673 before sandboxes were ordered by use
 * (docs/design/isolation.md, Shares of the processor).
 */
const RATIO = 30;
/** Cycles on the quiet host, and again under attack. After each, a pause lets the pool replace the used instance. */
const CYCLES = 40;
/** Cycles before, which are not measured. */
const WARM_UP_CYCLES = 10;
const PAUSE_MS = 200;
/** Longest time of the attacks, which end when the cycles do. */
const ATTACK_SECONDS = 40;
/** Time in which attackers reach their limits, and in which the first of them lose their priority. */
const ONSET_MS = 4000;
/** Small limits, so that all attackers fit into this host's memory whatever they do. */
const RESOURCES = { memoryMb: 256, diskMb: 256, pids: 512 };

const SCRIPT = readFileSync(new URL('fairness/attacks.py', import.meta.url), 'utf8');
/** Functions of the script that are attacks; the others have parameters. */
const ALL = [...SCRIPT.matchAll(/^def (\w+)\(\):/gm)].map(([, name = '']) => name);
const ATTACKS = ALL.filter((name) => name !== 'over');
/** Attacks that need the gateway. */
const GATED = new Set(['gateway_connections', 'gateway_requests', 'questions', 'garbage_questions']);
const POLICY = { mode: 'allowlist', hosts: ['allowed.test', '*.slow.test'] };

let internet: TestInternet;
let service: OwnService;
let attackers: Api;
let victim: Api;
before(async () => {
  internet = await testInternet();
  service = await testService({
    CLOCHE_DNS_UPSTREAM: `${internet.address}:53`,
    CLOCHE_EGRESS_EXTRA_CA: internet.authority.rootFile,
    CLOCHE_POOL_SIZE: '32',
  });
  attackers = await apiOf('attackers');
  victim = await apiOf('victim');
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

async function apiOf(name: string): Promise<Api> {
  return new Api(service.url, await service.createKey({ org: await service.createOrg(name), scopes: ['*'] }));
}

const STEPS = ['create', 'first run', 'hot run', 'destroy'] as const;
type Times = Record<(typeof STEPS)[number] | 'in all', number[]>;

/** Measures `count` cycles, or as many as fit before `untilMs`. */
async function measureCycles(count = CYCLES, untilMs = Number.POSITIVE_INFINITY): Promise<Times> {
  const times: Times = { create: [], 'first run': [], 'hot run': [], destroy: [], 'in all': [] };
  for (let cycle = 0; cycle < count && performance.now() < untilMs; cycle += 1) {
    let id = '';
    times.create.push(
      await timed(async () => {
        id = (await victim.readySandbox()).id;
      }),
    );
    times['first run'].push(await timed(() => victim.run(id, '1 + 1')));
    times['hot run'].push(await timed(() => victim.run(id, '1 + 1')));
    times.destroy.push(await timed(() => victim.delete(`/v1/sandboxes/${id}`)));
    times['in all'].push(STEPS.reduce((sum, step) => sum + (times[step].at(-1) ?? 0), 0));
    await delay(PAUSE_MS);
  }
  return times;
}

/**
 * Repeats the attack, which ends early when it breaks its own sandbox, until the time is over or `ended` is aborted.
 */
async function attack(sandboxId: string, name: string, untilMs: number, ended: AbortSignal): Promise<void> {
  for (let left = untilMs - performance.now(); left > 0 && !ended.aborted; left = untilMs - performance.now()) {
    const given = JSON.stringify({ attack: name, seconds: left / 1000, internet: internet.address });
    const code = `import json\ngiven = json.loads(${JSON.stringify(given)})\n${SCRIPT}`;
    const { status } = await attackers.post(`/v1/sandboxes/${sandboxId}/code/runs`, {
      code,
      language: 'python',
      timeoutMs: Math.ceil(left) + 1000,
    });
    if (status !== 200) await delay(PAUSE_MS);
  }
}

it('beside fifty sandboxes that attack, one of another key is created, runs and is destroyed in bounded time', async (t) => {
  await measureCycles(WARM_UP_CYCLES);
  const quiet = await measureCycles();
  const ids = await Promise.all(
    Array.from({ length: ATTACKERS }, async (_, index) => {
      const networkPolicy = GATED.has(ATTACKS[index % ATTACKS.length] ?? '') ? POLICY : { mode: 'unrestricted' };
      return (await attackers.readySandbox({ resources: RESOURCES, networkPolicy })).id;
    }),
  );
  const untilMs = performance.now() + ATTACK_SECONDS * 1000;
  const ended = new AbortController();
  const attackWith = (id: string, index: number) =>
    attack(id, ATTACKS[index % ATTACKS.length] ?? '', untilMs, ended.signal);
  const attacks = Promise.all(ids.map(attackWith));
  await delay(ONSET_MS);
  const attacked = await measureCycles(CYCLES, untilMs);
  ended.abort();
  await Promise.all(ids.map((id) => attackers.delete(`/v1/sandboxes/${id}`)));
  await attacks;
  for (const [step, values] of Object.entries(quiet)) {
    const [before, under] = [figuresOf(values), figuresOf(attacked[step as keyof Times])];
    const figure = (name: 'p50' | 'p95') => `${name} ${before[name].toFixed(1)} → ${under[name].toFixed(1)} ms`;
    t.diagnostic(`${step}: ${figure('p50')}, ${figure('p95')}`);
  }
  const ratio = figuresOf(attacked['in all']).p95 / figuresOf(quiet['in all']).p95;
  assert.ok(ratio <= RATIO, `${ratio.toFixed(1)} times`);
});
