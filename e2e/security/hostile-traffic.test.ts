/**
 * Random hostile connections, made from seeds, from a gated sandbox to the gateway. `CLOCHE_FUZZ_SECONDS` sets how long,
 * `CLOCHE_FUZZ_SEED` repeats the scripts from one seed on.
 */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { Random } from '@cloche/testkit/fuzz';
import { connectionScript, type Target } from '../support/hostile/connection-script.ts';
import { assertGivenBack, heldBy } from '../support/hostile/held.ts';
import type { TrafficScript } from '../support/hostile/hostile-traffic.ts';
import { lastingSandbox } from '../support/hostile/standing.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import { asUser, attempts } from './support/attackers.ts';

const SECONDS = Number(process.env.CLOCHE_FUZZ_SECONDS ?? 60);
const FIRST_SEED = Number(process.env.CLOCHE_FUZZ_SEED ?? Date.now() % 2 ** 31);
/** Scripts of one run in the sandbox, and connections at a time. */
const SCRIPTS = 150;
const AT_ONCE = 12;
const MORE_DESCRIPTORS = 20;
/** Of garbage that is not collected yet. If each connection kept its buffers, growth would be many times that. */
const MORE_BYTES = 200 * 2 ** 20;
/** Hosts of the test internet, and whether the policy permits them. */
const HOSTS = ['allowed.test', 'allowed.test', 'denied.test'] as const;
const PORTS = [80, 80, 443] as const;

let internet: TestInternet;
let service: OwnService;
let attacker: string;
let neighbour: string;

before(async () => {
  internet = await testInternet();
  service = await testService({
    CLOCHE_DNS_UPSTREAM: `${internet.address}:53`,
    CLOCHE_EGRESS_EXTRA_CA: internet.authority.rootFile,
  });
  const networkPolicy = { mode: 'allowlist', hosts: ['allowed.test'] };
  attacker = await lastingSandbox(service.api, SECONDS, { networkPolicy });
  neighbour = await lastingSandbox(service.api, SECONDS, { networkPolicy });
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

function trafficScript(seed: number): TrafficScript {
  const random = new Random(seed);
  const host = random.pick(HOSTS);
  const port = random.pick(PORTS);
  const targets: [Target, ...Target[]] = [
    { method: 'GET', path: '/', fields: `Host: ${host}\r\n` },
    { method: 'GET', path: '/?mebibytes=1', fields: `Host: ${host}\r\n` },
    { method: 'POST', path: '/', fields: `Host: ${host}\r\n`, body: '{}' },
    { method: 'GET', path: `http://${random.pick(HOSTS)}/`, fields: `Host: ${random.pick(HOSTS)}\r\n` },
  ];
  // A script that is not TLS on the port of TLS is a garbled greeting.
  return { ...connectionScript(random, targets), host, port, tls: port === 443 && random.chance(0.8) };
}

/** Plays scripts in the attacker's sandbox. Returns how many connections received something. */
async function attack(first: number): Promise<number> {
  const scripts = Array.from({ length: SCRIPTS }, (_, index) => trafficScript(first + index));
  const path = `/v1/sandboxes/${attacker}/files/content?path=scripts.json`;
  const headers = { 'content-type': 'application/octet-stream' };
  const { status } = await service.api.request('PUT', path, { body: JSON.stringify(scripts), headers });
  assert.ok(status < 300, String(status));
  const given = { file: '/workspace/scripts.json', at_once: AT_ONCE };
  return Number(await asUser(service, attacker, attempts('hostile-connections', given), 300_000));
}

/** Requests a permitted host from the neighbour's sandbox. */
async function reached(): Promise<string> {
  const code =
    'import urllib.request; print(len(urllib.request.urlopen("http://allowed.test/?mebibytes=1", timeout=20).read()))';
  return (await asUser(service, neighbour, code)).trim();
}

/** Returns undefined when the gateway has ended. */
function pidOf({ pid }: OwnService): number | undefined {
  try {
    return pid('egress');
  } catch {
    return undefined;
  }
}

/** Resolves with the result of `work`. Rejects as soon as `holds` throws. */
async function whileTrue<T>(holds: () => void, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setInterval(() => {
    try {
      holds();
    } catch (error) {
      reject(error);
    }
  }, 200);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearInterval(timer);
  }
}

it('hostile connections of a sandbox do not end the gateway, nor keep a neighbour from the network', async (t) => {
  const pid = service.pid('egress');
  assert.equal(await reached(), String(2 ** 20));
  let seed = FIRST_SEED;
  const lives = () => assert.equal(pidOf(service), pid, `CLOCHE_FUZZ_SEED=${seed} ended the gateway`);
  assert.ok((await whileTrue(lives, attack(seed))) > 0, 'no connection was answered');
  const before = heldBy(pid);
  const until = performance.now() + SECONDS * 1000;
  while (performance.now() < until) {
    seed += SCRIPTS;
    const because = `CLOCHE_FUZZ_SEED=${seed}`;
    const [answered, bytes] = await whileTrue(lives, Promise.all([attack(seed), reached()]));
    assert.ok(answered > 0, because);
    assert.equal(bytes, String(2 ** 20), because);
  }
  t.diagnostic(`${seed + SCRIPTS - FIRST_SEED} connections from seed ${FIRST_SEED}`);
  await assertGivenBack(pid, before, { descriptors: MORE_DESCRIPTORS, bytes: MORE_BYTES });
});
