/** Measures by the longest answer on the gateway's own socket. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { egressPaths } from '@cloche/protocol';
import { longestWait } from '../../bench/src/longest-wait.ts';
import { asUser, attempts } from '../security/support/attackers.ts';
import { hostileTraffic, type TrafficScript } from '../support/hostile/hostile-traffic.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import { compareWaits } from './compare-waits.ts';

const CONNECTIONS = 40;
const AT_ONCE = 8;

let internet: TestInternet;
let service: OwnService;
let sandboxId: string;
before(async () => {
  internet = await testInternet();
  service = await testService({
    CLOCHE_DNS_UPSTREAM: `${internet.address}:53`,
    CLOCHE_EGRESS_EXTRA_CA: internet.authority.rootFile,
  });
  const networkPolicy = { mode: 'allowlist', hosts: ['allowed.test', '*.wild.test'] };
  sandboxId = (await service.api.readySandbox({ networkPolicy })).id;
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

/** Plays scripts in the sandbox, on `CONNECTIONS` connections. Returns how many of these received something. */
async function play(file: string, scripts: readonly TrafficScript[]): Promise<number> {
  const given = { file: `/workspace/${file}`, times: CONNECTIONS / scripts.length, at_once: AT_ONCE };
  return Number(await asUser(service, sandboxId, attempts('hostile-connections', given), 300_000));
}

async function store(file: string, scripts: readonly TrafficScript[]): Promise<void> {
  const path = `/v1/sandboxes/${sandboxId}/files/content?path=${file}`;
  const headers = { 'content-type': 'application/octet-stream' };
  const { status } = await service.api.request('PUT', path, { body: JSON.stringify(scripts), headers });
  assert.ok(status < 300, String(status));
}

it('hostile connections of a sandbox keep the gateway from others at most five times as long as honest ones', async (t) => {
  const { controlSocket: socketPath } = egressPaths(service.runDir, service.dataDir);
  for (const { name, hostile, honest } of hostileTraffic(CONNECTIONS)) {
    await store('hostile.json', hostile);
    await store('honest.json', honest);
    let answered = 0;
    const wait = (file: string, scripts: readonly TrafficScript[]) =>
      longestWait({ socketPath, path: '/health' }, async () => {
        answered = await play(file, scripts);
      });
    const quiet = async () => {
      const ms = await wait('honest.json', honest);
      assert.ok(answered > CONNECTIONS / 2, `${name}: ${answered} honest connections were answered`);
      return ms;
    };
    const busy = () => wait('hostile.json', hostile);
    t.diagnostic(await compareWaits(name, { quiet, busy }));
  }
});
