/** Tests that the benchmark may be killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';

const PROGRAM = `
import { Subject } from ${JSON.stringify(new URL('../../bench/src/subject.ts', import.meta.url).href)};
const subject = await Subject.open({ CLOCHE_POOL_SIZE: '1' });
await subject.createReady();
console.log(JSON.stringify(subject.service));
await subject.createReady();
setInterval(() => {}, 1000);
`;

it('a benchmark that is killed leaves no sandbox, process or folder of the service that it started', async () => {
  // Without `CLOCHE_URL` the benchmark starts a service itself.
  const { CLOCHE_URL: _, ...env } = process.env;
  const bench = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(bench.stdout, 'data');
  const { runDir, installationId, pids } = JSON.parse(String(line));
  const groups = () => globSync(`/sys/fs/cgroup/{,*/}cloche-${installationId}/*/`);
  const processes = () => Object.values(pids).filter((pid) => existsSync(`/proc/${pid}`));
  assert.equal(processes().length, 3);
  assert.ok(groups().length > 0);
  bench.kill('SIGKILL');
  await eventually(() => processes().length === 0 && groups().length === 0);
  await eventually(() => !existsSync(runDir));
});
