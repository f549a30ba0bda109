import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CurrentSandboxMetrics, SandboxId } from '@cloche/contract';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import picocolors from 'picocolors';
import { runInProcess } from '../../testing/run-in-process.ts';
import { frameOf } from '../top/top-frames.ts';
import type { TopState } from '../top/top-state.ts';

const COLORS = picocolors.createColors(false);

function metricsOf(name: string, cpu: number): CurrentSandboxMetrics {
  return {
    sandboxId: `sbx_${name}` as SandboxId,
    limits: { cpu: 2, memoryBytes: 512e6, diskBytes: 1e9, inodes: 4096, processes: 128 },
    now: {
      at: '2026-01-31T09:00:00.000Z',
      cpu,
      memoryBytes: 120e6,
      diskBytes: 20e6,
      inodes: 36,
      processes: 7,
      networkBytes: { egress: 1000, ingress: 2e6 },
    },
  };
}

async function top(data: CurrentSandboxMetrics[], hasMore: boolean, ...args: string[]) {
  await using server = await startScriptedServer(() => json(200, { data, hasMore }));
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(['top', ...args], { env })), requests: server.requests };
}

describe('cloche top', () => {
  it('cloche top prints one table where the output is no terminal, the busiest sandbox first', async () => {
    const { stdout, exitCode, requests } = await top([metricsOf('calm', 0), metricsOf('busy', 1.5)], false);
    assert.equal(exitCode, 0);
    assert.match(
      stdout,
      /^SANDBOX +CPU +MEMORY +DISK +PROCESSES +SENT +RECEIVED +FILES\nsbx_busy +1\.50\/2 +114\.4 MiB\/488\.3 MiB +19\.1 MiB\/953\.7 MiB +7\/128 +1000 B +1\.9 MiB +36\/4096\nsbx_calm +0\.00\/2 .*\n$/,
    );
    assert.deepEqual(
      requests.map(({ path }) => path),
      ['/v1/sandbox-metrics?limit=100'],
    );
  });

  it('cloche top prints JSON, and requests one project and a number of sandboxes', async () => {
    const data = [metricsOf('one', 1)];
    const { stdout, requests } = await top(data, true, '--json', '--once', '--project', 'prj_1', '--limit', '1');
    assert.deepEqual(JSON.parse(stdout), { data, hasMore: true });
    assert.equal(requests[0]?.path, '/v1/sandbox-metrics?projectId=prj_1&limit=1');
  });

  it('cloche top says how to see more sandboxes, or how to create one', async () => {
    assert.match((await top([metricsOf('one', 1)], true, '--limit', '1')).stderr, /--limit shows more than 1/);
    const { stdout, stderr } = await top([], false);
    assert.equal(stdout, '');
    assert.match(stderr, /cloche sandbox create/);
  });

  it('cloche top shows a dash for what the runtime does not know', async () => {
    const { now, limits, sandboxId } = metricsOf('one', 1);
    const { processes: _, ...known } = now;
    assert.match((await top([{ sandboxId, limits, now: known }], false)).stdout, / - +1000 B/);
  });

  it('cloche top refuses a number of sandboxes that cannot be listed', async () => {
    for (const limit of ['0', '501', 'many']) assert.equal((await top([], false, '--limit', limit)).exitCode, 2);
  });

  it('cloche top fits into every width', () => {
    const metrics = { data: [metricsOf('a'.repeat(26), 1), metricsOf('b', 0)], hasMore: true };
    const state: TopState = { view: 'list', order: 'cpu', filter: '', isOnlyOne: false };
    for (const width of [200, 100, 80, 40, 10]) {
      for (const problem of [undefined, 'The service does not answer.\u001b[2J'.repeat(5)]) {
        for (const view of ['list', 'one', 'help', 'filter', 'confirm'] as const) {
          const options = { columns: width, rows: 24, colors: COLORS, url: 'http://127.0.0.1:4680', problem };
          const samples = Array.from({ length: 360 }, (_, index) => ({ ...metricsOf('b', index % 2).now }));
          const [one] = metrics.data.map((each) => ({
            metrics: { ...each, intervalMs: 10_000, samples },
            commands: [],
          }));
          const lines = frameOf({ ...state, view, selectedId: 'sbx_b' }, metrics, one, options);
          for (const line of lines) assert.ok([...line].length <= width, `${width}: ${line}`);
          const hasFiles = lines.some((line) => line.includes('FILES'));
          assert.equal(hasFiles, width === 200 && view !== 'one' && view !== 'help');
          assert.ok(!lines.join('').includes('\u001b[2J'));
        }
      }
    }
  });

  it('cloche top prints one sandbox that is named', async () => {
    const metrics = { ...metricsOf('one', 1), intervalMs: 10_000, samples: [] };
    await using server = await startScriptedServer(({ path }) =>
      json(200, path.endsWith('/commands') ? { data: [], hasMore: false } : { metrics }),
    );
    const { stdout } = await runInProcess(['top', 'sbx_one'], { url: server.url });
    assert.match(stdout, /^SANDBOX .*\nsbx_one +1\.00\/2 .*\n$/);
  });
});
