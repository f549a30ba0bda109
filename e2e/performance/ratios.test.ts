/**
 * Asserts only ratios, of values measured in turns in one run, with margins for other load on the machine. Absolute
 * figures are the benchmark's (bench/).
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import type { HostdHealth } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { HttpClient } from '../../bench/src/http-client.ts';
import { FastifyPeer } from '../../bench/src/peers/fastify.ts';
import { figuresOf } from '../../bench/src/statistics.ts';
import { inTurns, repeat, timed } from '../../bench/src/timing.ts';
import { ALL_PROTOCOLS, type TestService, testService } from '../support/service.ts';

const median = (values: readonly number[]) => figuresOf(values).p50;
/** Returns the 10th percentile, which other load on the machine hardly affects. */
const quickestTenth = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 10)] ?? 0;

/** Larger than in other tests: an instance is ready while the next one is launched. */
const POOL = { CLOCHE_POOL_SIZE: '2' };

let service: TestService;
let http: HttpClient;
before(async () => {
  service = await testService({ ...ALL_PROTOCOLS, ...POOL });
  const { hostname: host, port } = new URL(service.url);
  http = new HttpClient({ host, port: Number(port) }, { authorization: `Bearer ${service.apiKey}` });
});
after(async () => {
  http?.close();
  await service?.close();
});

let keys = 0;
async function run(sandboxId: string, code = '1+1'): Promise<void> {
  keys += 1;
  const headers = { 'idempotency-key': `ratio-${keys}` };
  await http.call('POST', `/v1/sandboxes/${sandboxId}/code/runs`, { code, language: 'python' }, headers);
}

async function createAndKill(of: TestService): Promise<number> {
  let id = '';
  const ms = await timed(async () => {
    id = (await of.api.readySandbox()).id;
  });
  await of.api.delete(`/v1/sandboxes/${id}`);
  return ms;
}

describe('a hot run', () => {
  it('a hot run takes at most eight times as long as an empty POST to the same HTTP library, each at its quickest tenth', async () => {
    await using fastify = await FastifyPeer.start();
    const { id } = await service.api.readySandbox();
    const acts = { run: () => timed(() => run(id)), post: () => timed(() => fastify.post()) };
    await inTurns(300, acts);
    const values = await inTurns(600, acts);
    await service.api.delete(`/v1/sandboxes/${id}`);
    const ratio = quickestTenth(values.run) / quickestTenth(values.post);
    assert.ok(ratio <= 8, `${ratio.toFixed(1)} times`);
  });

  it('a hot run takes no longer beside twenty other sandboxes that are idle', async () => {
    const { id } = await service.api.readySandbox();
    const hot = () => repeat(300, () => timed(() => run(id)));
    await hot();
    const alone = median(await hot());
    const others = await Promise.all(
      Array.from({ length: 20 }, () => service.api.readySandbox({ resources: { diskMb: 128 } })),
    );
    const among = median(await hot());
    for (const other of others) await service.api.delete(`/v1/sandboxes/${other.id}`);
    // Measured before and after, so that load that begins in between does not count against either.
    const aloneAgain = median(await hot());
    await service.api.delete(`/v1/sandboxes/${id}`);
    const ratio = among / Math.max(alone, aloneAgain);
    assert.ok(ratio <= 2, `${ratio.toFixed(1)} times`);
  });
});

describe('the first result of a sandbox', () => {
  it('the first result of a sandbox is a table of pandas in at most an eighth of the time that Python takes for one in there', async () => {
    const table = 'import pandas; print(pandas.DataFrame({"a": [1, 2, 3]}))';
    const first = async () => {
      const { id } = await service.api.readySandbox();
      const ms = await timed(() => run(id, table));
      await service.api.delete(`/v1/sandboxes/${id}`);
      return ms;
    };
    const { id } = await service.api.readySandbox();
    const python = () =>
      timed(async () => {
        const command = ['python3', '-c', table];
        keys += 1;
        const headers = { 'idempotency-key': `ratio-${keys}` };
        const { body } = await http.call('POST', `/v1/sandboxes/${id}/commands`, { command }, headers);
        assert.equal(body.command.exitCode, 0);
      });
    await inTurns(2, { first, python });
    const values = await inTurns(7, { first, python });
    await service.api.delete(`/v1/sandboxes/${id}`);
    const ratio = median(values.first) / median(values.python);
    assert.ok(ratio <= 1 / 8, `${ratio.toFixed(2)} of it`);
  });
});

describe('the first result of JavaScript', () => {
  it('the first result of JavaScript takes at most three times as long as with Python, best run against best run, where its contexts were opened lately', async (t) => {
    const own = await testService(POOL);
    const first = async (language: 'python' | 'javascript') => {
      const { id } = await own.api.readySandbox();
      const ms = await timed(() => own.api.run(id, '1 + 1', { language }));
      await own.api.delete(`/v1/sandboxes/${id}`);
      return ms;
    };
    try {
      await first('python');
      const alone = await first('javascript');
      const values = { python: [] as number[], javascript: [] as number[] };
      for (let round = 0; round < 9; round++) {
        for (const language of ['python', 'javascript'] as const) {
          // One kernel in each of the two waiting instances.
          await eventually(() => readyKernels(own.installationId) === 2);
          values[language].push(await first(language));
        }
      }
      const [javascript, python] = [quickestTenth(values.javascript), quickestTenth(values.python)];
      t.diagnostic(`${alone.toFixed(0)} ms, then ${javascript.toFixed(0)} ms; Python ${python.toFixed(0)} ms`);
      assert.ok(javascript / python <= 3, `${(javascript / python).toFixed(1)} times`);
    } finally {
      await own.close();
    }
  });
});

/** Counts JavaScript and TypeScript kernels in all sandboxes of an installation that have finished their start. */
function readyKernels(installationId: string): number {
  return globSync('/proc/[0-9]*').filter((folder) => {
    try {
      const isKernel = readFileSync(join(folder, 'cmdline'), 'utf8').includes('kernel-js/main.cjs');
      const isOwn = isKernel && readFileSync(join(folder, 'cgroup'), 'utf8').includes(`cloche-${installationId}/`);
      return isOwn && readlinkSync(join(folder, 'fd/60')) !== '';
    } catch {
      return false;
    }
  }).length;
}

describe('a JavaScript context', () => {
  let service: TestService;
  // A pool would supply a kernel that is already loaded, even for the first context.
  before(async () => {
    service = await testService({ CLOCHE_POOL_SIZE: '0' });
  });
  after(() => service.close());

  it('a JavaScript context after the first one of its sandbox is open in at most half the time that the first one took', async () => {
    // Moving its socket to this number is a kernel's last step before it is ready.
    const count = `
from pathlib import Path
kernels = [p for p in Path('/proc').glob('[0-9]*') if 'kernel-js/main.cjs' in (p / 'cmdline').read_text()]
sum((p / 'fd/60').is_symlink() for p in kernels)`;
    const values = { first: [] as number[], second: [] as number[] };
    for (let round = 0; round < 7; round++) {
      const { id } = await service.api.readySandbox();
      const open = () =>
        timed(async () => {
          const { status } = await service.api.post(`/v1/sandboxes/${id}/code/contexts`, { language: 'javascript' });
          assert.equal(status, 201);
        });
      values.first.push(await open());
      await eventually(async () => (await service.api.run(id, count)).outputs[0]?.value === '2');
      values.second.push(await open());
      await service.api.delete(`/v1/sandboxes/${id}`);
    }
    const ratio = median(values.second) / median(values.first);
    assert.ok(ratio <= 0.5, `${ratio.toFixed(2)} of it`);
  });
});

describe('a sandbox from the pool', () => {
  it('a sandbox from the pool is ready in at most half the time that one takes without a pool', async () => {
    const without = await testService({ CLOCHE_POOL_SIZE: '0' });
    const hostd = new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
    try {
      const isFull = async () => {
        const { pool }: HostdHealth = (await hostd.call('GET', '/health')).body;
        // Filling the pool takes processor time that the measured launch would otherwise have.
        return pool.ready >= pool.size;
      };
      const acts = {
        pooled: async () => {
          await eventually(isFull);
          return createAndKill(service);
        },
        launched: () => createAndKill(without),
      };
      await inTurns(2, acts);
      const values = await inTurns(9, acts);
      const ratio = median(values.pooled) / median(values.launched);
      assert.ok(ratio <= 0.5, `${ratio.toFixed(2)} of it`);
    } finally {
      hostd.close();
      await without.close();
    }
  });
});
