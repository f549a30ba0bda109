/**
 * `subject-service.ts ENVIRONMENT`: starts a service for a benchmark, in a data folder of its own, and describes it in
 * one line. Removes everything when its standard input ends, however the benchmark has ended; another process does so if
 * this one is killed.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startInstallation } from '@cloche/setup';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { appointHeir } from '../../e2e/support/service-heir.ts';
import type { Service } from './subject.ts';

const [, , environment = '{}'] = process.argv;
const dataDir = mkdtempSync(join(tmpdir(), 'cloche-bench-'));
// The server's user must be able to traverse the folder to reach its own.
chmodSync(dataDir, 0o711);
const runDir = join('/run/cloche', seedInstallationId(dataDir));
const heir = appointHeir(dataDir, runDir);
try {
  const env = JSON.parse(environment);
  const servers = Number(env.CLOCHE_SERVERS ?? 1);
  const installation = await startInstallation({ dataDir, runDir, env, servers, supervise: false });
  const { url, installationId } = installation;
  const [server = 0, hostd = 0, egress = 0] = (['server', 'hostd', 'egress'] as const).map(installation.pid);
  const service: Service = { url, installationId, runDir, pids: { server, hostd, egress } };
  console.log(JSON.stringify(service));
  await text(process.stdin);
  await installation.stop({ destroyAll: true });
  rmSync(runDir, { recursive: true, force: true });
} finally {
  rmSync(dataDir, { recursive: true, force: true });
  heir[Symbol.dispose]();
}
process.exit();
