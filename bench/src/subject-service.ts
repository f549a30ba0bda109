/**
 * `subject-service.ts ENVIRONMENT`: starts a service for a benchmark, in a data folder of its own, and describes it in
 * one line. Removes everything when its standard input ends, however the benchmark has ended.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startInstallation } from '@cloche/setup';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import type { Service } from './subject.ts';

const [, , environment = '{}'] = process.argv;
const dataDir = mkdtempSync(join(tmpdir(), 'cloche-bench-'));
// The server's user must be able to traverse the folder to reach its own.
chmodSync(dataDir, 0o711);
seedInstallationId(dataDir);
try {
  const env = JSON.parse(environment);
  const servers = Number(env.CLOCHE_SERVERS ?? 1);
  const installation = await startInstallation({ dataDir, env, servers, supervise: false });
  const { url, installationId, runDir } = installation;
  const [server = 0, hostd = 0, egress = 0] = (['server', 'hostd', 'egress'] as const).map(installation.pid);
  const service: Service = { url, installationId, runDir, pids: { server, hostd, egress } };
  console.log(JSON.stringify(service));
  await text(process.stdin);
  await installation.stop({ destroyAll: true });
  rmSync(runDir, { recursive: true, force: true });
} finally {
  rmSync(dataDir, { recursive: true, force: true });
}
process.exit();
