import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const HOUR = 3_600_000;
const row = {
  from: '2026-01-31T14:00:00.000Z',
  to: '2026-01-31T15:00:00.000Z',
  projectId: 'prj_1',
  sandboxMs: 1.5 * HOUR,
  cpuMs: 0.25 * HOUR,
  memoryMbMs: 2048 * HOUR,
  diskMbMs: 512 * HOUR,
  pausedMs: 3 * HOUR,
  runs: 1200,
  commands: 3,
  workspaceRuns: 0,
  egressBytes: 1_234_567,
  ingressBytes: 20,
  artifactBytes: 0,
};
const other = { ...row, projectId: 'prj_other', sandboxMs: 1000 * HOUR, ingressBytes: 980 };

async function run(data: unknown[], ...args: string[]) {
  await using server = await startScriptedServer(() => json(200, { data, hasMore: false }));
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(['usage', ...args], { env })), requests: server.requests };
}

/** Returns the cells of a table's line. */
const cells = (line = '') => line.split(/ {2,}/);

describe('cloche usage', () => {
  it('cloche usage shows a line for each day and project in units for people, and the total', async () => {
    const { stdout, requests } = await run([row, other]);
    const lines = stdout.trimEnd().split('\n');
    assert.deepEqual(lines.map(cells), [
      [
        'DAY',
        'PROJECT',
        'SANDBOX h',
        'CPU h',
        'MEMORY GiB·h',
        'DISK GiB·h',
        'PAUSED h',
        'RUNS',
        'COMMANDS',
        'OUT MiB',
        'IN MiB',
        'ARTIFACTS MiB',
      ],
      ['2026-01-31', 'prj_1', '1.500', '0.250', '2.000', '0.500', '3.000', '1,200', '3', '1.177', '<0.001', '0.000'],
      [
        '2026-01-31',
        'prj_other',
        '1,000.000',
        '0.250',
        '2.000',
        '0.500',
        '3.000',
        '1,200',
        '3',
        '1.177',
        '<0.001',
        '0.000',
      ],
      ['total', '1,001.500', '0.500', '4.000', '1.000', '6.000', '2,400', '6', '2.355', '<0.001', '0.000'],
    ]);
    assert.equal(new Set(lines.map(({ length }) => length)).size, 1, 'numbers are aligned at the right');
    assert.equal(requests[0]?.path, '/v1/usage?groupBy=day');
    assert.deepEqual(JSON.parse((await run([row], '--json')).stdout), { data: [row] });
  });

  it('cloche usage shows hours of a range and of one project', async () => {
    const args = ['--from', '2026-01-31', '--to', '2026-02-01', '--by', 'hour', '--project', 'prj_1'];
    const { stdout, requests } = await run([row], ...args);
    assert.match(stdout, /^HOUR .*\n2026-01-31 14:00 {2}prj_1 /);
    assert.equal(requests[0]?.path, '/v1/usage?from=2026-01-31&to=2026-02-01&groupBy=hour&projectId=prj_1');
  });

  it('says that nothing was used, and refuses other lengths than days and hours', async () => {
    const { stdout, stderr } = await run([]);
    assert.deepEqual([stdout, stderr], ['', 'Nothing was used in this time.\n']);
    assert.deepEqual(JSON.parse((await run([], '--json')).stdout), { data: [] });
    assert.equal((await run([], '--by', 'week')).exitCode, 2);
  });
});
