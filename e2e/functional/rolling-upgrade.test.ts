/**
 * An installation with three servers is upgraded to a release with other protocols and a larger schema, and rolled back, one
 * process after the other, while clients use it.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import {
  AGENT_PROTOCOL_VERSION,
  EGRESS_PROTOCOL_VERSION,
  HOSTD_PROTOCOL_VERSION,
  type HostdHealth,
} from '@cloche/protocol';
import { Cloche, type Sandbox } from '@cloche/sdk';
import type { ProcessName } from '@cloche/setup';
import { HttpClient } from '../../bench/src/http-client.ts';
import { SCHEMA_VERSION } from '../../packages/service/server/src/platform/db/migrate.ts';
import { openDatabase } from '../../packages/service/server/src/platform/db/open-database.ts';
import { type TestPostgres, testPostgres } from '../support/postgres.ts';
import { createSandbox, type SdkLoad, startSdkLoad } from '../support/sdk-load.ts';
import { type OwnService, testService } from '../support/service.ts';

const SERVERS = ['server-1', 'server-2', 'server-3'] as const;
const LIVE_SANDBOXES = 3;
const CLIENTS = 2;
const THIS_RELEASE = {};
const NEXT_RELEASE = {
  HOSTD_PROTOCOL_VERSION: HOSTD_PROTOCOL_VERSION + 1,
  AGENT_PROTOCOL_VERSION: AGENT_PROTOCOL_VERSION + 1,
  EGRESS_PROTOCOL_VERSION: EGRESS_PROTOCOL_VERSION + 1,
  MIGRATION: '999-next-release-expand',
};
/** Launches wait for hostd while that is replaced, however long it takes to start here. */
const SLOW_HOST = { CLOCHE_LAUNCH_TIMEOUT_MS: '240000' };
/** Prints numbers until it is told to stop. */
const COUNTING = 'i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; sleep 0.05; done';

const folder = mkdtempSync(join(tmpdir(), 'releases-'));
const file = join(folder, 'release.json');
let postgres: TestPostgres;
let database: string;
let service: OwnService;
let cloche: Cloche;
before(async () => {
  // The users of the services read the file.
  chmodSync(folder, 0o755);
  chooseRelease(THIS_RELEASE);
  postgres = await testPostgres();
  database = await postgres.createDatabase('upgraded');
  const programs = {
    server: 'e2e/support/announcing-server.ts',
    hostd: 'e2e/support/announcing-hostd.ts',
    egress: 'e2e/support/announcing-egress.ts',
  };
  const env = { ANNOUNCED_PROTOCOLS: file, CLOCHE_DATABASE_URL: database, CLOCHE_DRAIN_MS: '60000', ...SLOW_HOST };
  service = await testService(env, undefined, { servers: SERVERS.length, programs });
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
});
after(async () => {
  // After a failure, what has to be started again works with the processes of either release.
  chooseRelease(NEXT_RELEASE);
  await service?.close();
  await postgres?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Processes that start from now on are of this release. */
function chooseRelease(release: Record<string, unknown>): void {
  writeFileSync(file, JSON.stringify(release), { mode: 0o644 });
}

async function replace(parts: readonly ProcessName[], load: SdkLoad): Promise<void> {
  for (const part of parts) {
    await service.restart(part);
    await load.proceeds();
  }
}

/** Returns the newest migration that each live server knows. */
async function schemasOfServers(): Promise<Set<string | null>> {
  const db = await openDatabase(database);
  const rows = await db
    .selectFrom('server_leases')
    .select('schema_version')
    .where('lease_until', '>', Date.now())
    .execute();
  await db.destroy();
  return new Set(rows.map(({ schema_version }) => schema_version));
}

async function versionsOfHostd(): Promise<[hostd: number, agents: number | undefined]> {
  const client = new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
  const { protocolVersion, agentProtocolVersion }: HostdHealth = (await client.call('GET', '/health')).body;
  client.close();
  return [protocolVersion, agentProtocolVersion];
}

/** Follows a command through all servers that begin and end meanwhile. Resolves with its output when it has ended. */
async function follow(sandbox: Sandbox): Promise<string> {
  const command = await sandbox.commands.start(COUNTING);
  let text = '';
  for await (const { data } of command.logs()) text += data;
  return text;
}

describe('an upgrade of three servers, hostd and egress by one release, and back', () => {
  it('an upgrade of three servers, hostd and egress by one release, and back fails no request, and keeps sandboxes with their variables and commands', async () => {
    const create = () => createSandbox(cloche);
    const live = await Promise.all(Array.from({ length: LIVE_SANDBOXES }, create));
    for (const [index, sandbox] of live.entries()) await sandbox.run(`kept = ${index}`);
    const keptIn = (sandboxes: readonly Sandbox[]) =>
      Promise.all(sandboxes.map(async (sandbox) => (await sandbox.run('kept')).outputs[0]?.value));
    const output = follow(live[0] as Sandbox);
    output.catch(() => undefined);
    using load = startSdkLoad(cloche, CLIENTS);
    await load.proceeds();

    chooseRelease(NEXT_RELEASE);
    await replace(['server-1'], load);
    // The new server has migrated the database, with which the old ones go on.
    assert.deepEqual(await schemasOfServers(), new Set([SCHEMA_VERSION, NEXT_RELEASE.MIGRATION]));
    await replace(['server-2', 'server-3'], load);
    assert.deepEqual(await schemasOfServers(), new Set([NEXT_RELEASE.MIGRATION]));
    assert.deepEqual(await versionsOfHostd(), [HOSTD_PROTOCOL_VERSION, AGENT_PROTOCOL_VERSION]);
    // hostd and egress of different releases: sandboxes go on, and egress gets the policies once it is replaced too.
    await replace(['hostd', 'egress'], load);
    assert.deepEqual(await versionsOfHostd(), [HOSTD_PROTOCOL_VERSION + 1, AGENT_PROTOCOL_VERSION + 1]);
    assert.deepEqual(await keptIn(live), ['0', '1', '2']);
    const gated = await createSandbox(cloche, { networkPolicy: { mode: 'allowlist', hosts: ['example.com'] } });
    await gated.run('kept = "gated"');

    chooseRelease(THIS_RELEASE);
    await replace(['hostd', 'egress'], load);
    assert.deepEqual(await versionsOfHostd(), [HOSTD_PROTOCOL_VERSION, AGENT_PROTOCOL_VERSION]);
    await replace(SERVERS, load);
    // The old servers have started with the larger schema.
    assert.deepEqual(await schemasOfServers(), new Set([SCHEMA_VERSION]));
    await load.end();
    assert.deepEqual(await keptIn([...live, gated]), ['0', '1', '2', "'gated'"]);

    await live[0]?.files.write('stop', '');
    const numbers = (await output).trim().split('\n').map(Number);
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => index + 1),
    );
  });
});
