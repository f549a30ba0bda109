/**
 * A service behind the firewalls of other machines: what it says to be blocked, and that the remedy, applied literally,
 * opens the network. The firewalls are those of Debian 12, in a network namespace of this test.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import type { HostWarning } from '@cloche/contract';
import { runPaths } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { runCloche } from '../../packages/clients/cli/testing/run-cloche.ts';
import { callSocket } from '../../packages/host/setup/src/installation/socket-client.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import { Firewalls } from './support/firewalls.ts';
import { enterOwnNetwork } from './support/own-network.ts';

const ALL = ['sandbox_datagrams', 'sandbox_dns', 'sandbox_forwarding', 'sandbox_gateway'];
const FETCH = `import urllib.request
urllib.request.urlopen('http://cloche.test/', timeout=10).status`;
let firewalls: Firewalls;
let internet: TestInternet;
let service: OwnService;
/** Link to this test's internet. */
let link: string;
/** Default route of this test's network. */
let route: string;
let open: string;
let gated: string;

before(async () => {
  firewalls = await Firewalls.open();
  enterOwnNetwork();
  internet = await testInternet();
  link = (await firewalls.run("ip -brief link | grep -o '^ie2e[0-9]*'")).trim();
  route = `default via ${internet.address} dev ${link} onlink`;
  await firewalls.run(`ip route add ${route}`);
  process.env.PATH = `${firewalls.programs}:${process.env.PATH}`;
  service = await testService({ CLOCHE_DNS_UPSTREAM: `${internet.address}:53` });
  ({ id: open } = await service.api.readySandbox());
  const networkPolicy = { mode: 'allowlist', hosts: ['cloche.test'] };
  ({ id: gated } = await service.api.readySandbox({ networkPolicy }));
});

/** Removes every firewall, also of a test that failed, but not Cloche's rules. */
afterEach(async () => {
  await firewalls.stopFirewalld();
  await firewalls.run(`nft list tables | grep -v ' cloche_' | while read -r line; do nft "delete $line"; done
    for chain in INPUT FORWARD; do iptables-legacy -P $chain ACCEPT; done; iptables-legacy -F; iptables-legacy -X
    ip route replace ${route}`);
});

after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
  await firewalls?.[Symbol.asyncDispose]();
});

/** Has hostd measure again, as `cloche doctor` does, and returns what `/readyz` then shows. */
async function warnings(): Promise<HostWarning[]> {
  const { status } = await callSocket(runPaths(service.runDir).hostdSocket, 'POST', '/warnings');
  assert.equal(status, 200);
  const answer = await service.api.get('/readyz');
  assert.equal(answer.status, 200);
  return answer.body.warnings;
}

async function checks(): Promise<string[]> {
  return (await warnings()).map(({ check }) => check).toSorted();
}

/** Returns the status of a request of each sandbox to the internet, or the name of the error. */
async function fetched(): Promise<unknown[]> {
  const runs = await Promise.all([open, gated].map((id) => service.api.run(id, FETCH)));
  return runs.map(({ outputs, error }) => error?.message ?? outputs.map(({ value }) => value));
}

async function applyRemedies(found: readonly HostWarning[]): Promise<void> {
  const commands = found.flatMap(({ remedy }) =>
    [...remedy.matchAll(/`([^`]+)`/g)].map(([, command]) => command ?? ''),
  );
  for (const command of commands) await firewalls.run(command);
}

/** Applies the remedies, and asserts that nothing is blocked any more. */
async function opensBy(remedy: RegExp): Promise<void> {
  const found = await warnings();
  for (const each of found) assert.match(each.remedy, remedy);
  await applyRemedies(found);
  assert.deepEqual(await warnings(), []);
  assert.deepEqual(await fetched(), [['200'], ['200']]);
}

describe('a service behind a firewall', () => {
  it('a service behind a firewall has no warnings without one', async () => {
    assert.deepEqual(await warnings(), []);
    assert.deepEqual(await fetched(), [['200'], ['200']]);
  });

  it("a service behind a firewall says how to open nftables rules of the operator's own", async () => {
    await firewalls.run(`nft -f - <<END
table inet own {
  chain in { type filter hook input priority 0; policy drop; iifname { "lo", "ie2e*" } accept; }
  chain through { type filter hook forward priority 0; policy drop; }
}
END`);
    assert.deepEqual(await checks(), ALL);
    await opensBy(/nft insert rule inet own (in|through) /);
  });

  it('a service behind a firewall says how to open ufw', async () => {
    await firewalls.run('ufw --force enable');
    assert.deepEqual(await checks(), ALL);
    await opensBy(/^Run `ufw (route )?allow in on c[le]\+`\.$/);
  });

  it('a service behind a firewall says how to open firewalld', async () => {
    await firewalls.startFirewalld();
    // Its rules accept what was redirected to this host.
    assert.deepEqual(await checks(), ['sandbox_datagrams', 'sandbox_forwarding']);
    await opensBy(/^Run `firewall-cmd /);
  });

  for (const iptables of ['iptables', 'iptables-legacy']) {
    it(`a service behind a firewall passes Docker's firewall, which is started after it, with ${iptables}`, async () => {
      await firewalls.run(
        `${iptables} -N DOCKER-USER; ${iptables} -A FORWARD -j DOCKER-USER; ${iptables} -P FORWARD DROP`,
      );
      await eventually(async () => (await firewalls.run(`${iptables} -S DOCKER-USER`)).split('ACCEPT').length === 7);
      assert.deepEqual(await warnings(), []);
      assert.deepEqual(await fetched(), [['200'], ['200']]);
    });
  }

  it('a service behind a firewall says how to open rules of iptables-legacy, which nft does not show', async () => {
    await firewalls.run('iptables-legacy -A INPUT -i lo -j ACCEPT; iptables-legacy -A INPUT -i ie2e+ -j ACCEPT');
    await firewalls.run('iptables-legacy -P INPUT DROP; iptables-legacy -P FORWARD DROP');
    assert.deepEqual(await checks(), ALL);
    await opensBy(/iptables-legacy -I (INPUT|FORWARD) /);
  });

  it('a service behind a firewall serves sandboxes with IPv4 beside IPv6, and says that they have no internet with IPv6 alone', async () => {
    const ipv6 = `default via 2001:db8::1 dev ${link}`;
    await firewalls.run(`ip address add 2001:db8::2/64 dev ${link} nodad; ip -6 route add ${ipv6}`);
    assert.deepEqual(await warnings(), []);
    assert.deepEqual(await fetched(), [['200'], ['200']]);
    await firewalls.run('ip -4 route delete default');
    assert.deepEqual(await checks(), ['ipv4_route']);
    await firewalls.run(`ip -6 route delete ${ipv6}`);
    assert.deepEqual(await checks(), ['ipv4_route']);
    await firewalls.run(`ip route add ${route}`);
    assert.deepEqual(await warnings(), []);
  });
});

describe('`cloche doctor`', () => {
  /** Returns the names of findings of the network that are amiss. */
  async function doctor(env: Record<string, string>): Promise<string[]> {
    const { stdout, stderr } = await runCloche(['doctor', '--json'], { env });
    const { data } = JSON.parse(stdout || assert.fail(stderr));
    const found = (data as { name: string; status: string }[]).filter(
      ({ name, status }) => name === 'network' || (/^(sandbox|ipv4)_/.test(name) && status === 'warning'),
    );
    return found.map(({ name }) => name).toSorted();
  }
  const DROP = `nft 'add table inet own; add chain inet own through { type filter hook forward priority 0; policy drop; }'`;
  const DROPPED = ['sandbox_datagrams', 'sandbox_forwarding'];

  it('`cloche doctor` asks hostd, which then shows the same', async () => {
    const env = { CLOCHE_RUN_DIR: service.runDir, CLOCHE_DATA_DIR: service.dataDir };
    assert.deepEqual(await doctor(env), ['network']);
    await firewalls.run(DROP);
    assert.deepEqual(await doctor(env), DROPPED);
    assert.deepEqual(
      (await service.api.get('/readyz')).body.warnings.map(({ check }: HostWarning) => check).toSorted(),
      DROPPED,
    );
  });

  it('`cloche doctor` measures by itself where no hostd runs, and leaves nothing behind', async () => {
    await service.close();
    const state = 'ip -brief link; nft list tables | grep -v own || true';
    const before = await firewalls.run(state);
    const env = { CLOCHE_DATA_DIR: '/nonexistent' };
    assert.deepEqual(await doctor(env), ['network']);
    await firewalls.run(DROP);
    assert.deepEqual(await doctor(env), DROPPED);
    assert.equal(await firewalls.run(state), before);
  });
});
