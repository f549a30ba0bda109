/** Measures in a network namespace of its own, which stands for a host with a firewall. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { HostWarningList } from '@cloche/protocol';

/** A host with an uplink to nowhere: nothing of a measurement needs an answer from the internet. */
const UPLINK = `ip link set lo up
ip link add uplink type veth peer name other; ip link set uplink up; ip link set other up
ip addr add 203.0.113.2/24 dev uplink; ip route add default via 203.0.113.1`;
const NOTHING_LEFT = `nft list tables; ip -brief link | grep -v '^\\(lo\\|uplink\\|other\\)' || true`;
/** Returns a command that makes a firewall of the operator's own. */
const firewall = ({ input, forward }: { input: string; forward: string }) => `nft -f - <<END
table inet own {
  chain on_input { type filter hook input priority 0; ${input}; }
  chain on_forward { type filter hook forward priority 0; ${forward}; }
}
END`;
const ALL = ['sandbox_dns', 'sandbox_forwarding', 'sandbox_gateway', 'sandbox_datagrams'].toSorted();

describe('a measurement of the firewalls of a host', { concurrency: 2 }, () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-probe-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  const slots = () => join(folder, 'slots');
  const module = fileURLToPath(new URL('./measure-without-hostd.ts', import.meta.url));
  const program = (then = '') => `import { measureWithoutHostd } from ${JSON.stringify(module)};
    const ending = new AbortController();
    const measuring = measureWithoutHostd(${JSON.stringify(slots())}, ending.signal); ${then}
    console.log(JSON.stringify({ warnings: await measuring }));`;

  /** Runs a script on a host, and returns what it printed. */
  async function onHost(script: string, measure = program()): Promise<string> {
    const inside = ['--net', '--', 'sh', '-euc', script, 'sh', process.execPath, '--input-type=module', '-e', measure];
    const child = spawn('unshare', inside, { stdio: ['ignore', 'pipe', 'pipe'] });
    const [printed, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    assert.equal(code, 0, errors + printed);
    return printed;
  }

  async function warningsAfter(rules: string, setUp = UPLINK): Promise<HostWarningList['warnings']> {
    const [measured = '', ...left] = (await onHost(`${setUp}\n${rules}\n"$@"\nnft flush ruleset\n${NOTHING_LEFT}`))
      .trim()
      .split('\n');
    assert.deepEqual(left, []);
    return JSON.parse(measured).warnings;
  }

  const checksOf = (warnings: HostWarningList['warnings']) => warnings.map(({ check }) => check).toSorted();

  it('a measurement of the firewalls of a host finds nothing without a firewall, and where a firewall accepts what Cloche needs', async () => {
    assert.deepEqual(await warningsAfter(''), []);
    const exact = firewall({
      input:
        'policy drop; iifname { "lo", "uplink" } accept; ct state established accept; iifname "cl*" accept; iifname "ce*" accept',
      forward:
        'policy drop; iifname "uplink" ct state established,related accept; iifname "cl*" oifname "uplink" accept; iifname "ce*" oifname "uplink" meta l4proto udp accept',
    });
    assert.deepEqual(await warningsAfter(exact), []);
  });

  it('a measurement of the firewalls of a host finds what is dropped by policies and what is refused by rules, each with its remedy', async () => {
    const dropped = await warningsAfter(firewall({ input: 'policy drop; iifname lo accept', forward: 'policy drop' }));
    assert.deepEqual(checksOf(dropped), ALL);
    const [dns] = dropped.filter(({ check }) => check === 'sandbox_dns');
    assert.match(dns?.remedy ?? '', /`nft insert rule inet own on_input iifname '"cl\*"' accept`/);
    const refuse = 'iifname != lo ct state new reject with icmpx admin-prohibited';
    const refused = await warningsAfter(
      firewall({ input: `policy accept; ${refuse}`, forward: `policy accept; ${refuse}` }),
    );
    assert.deepEqual(checksOf(refused), ALL);
  });

  it('a measurement of the firewalls of a host finds dropped replies', async () => {
    const found = await warningsAfter(
      firewall({ input: 'policy accept', forward: 'policy drop; iifname "cl*" accept' }),
    );
    assert.deepEqual(checksOf(found), ['sandbox_datagrams', 'sandbox_forwarding']);
  });

  it('a measurement of the firewalls of a host finds a missing default route, also where the host has one of IPv6', async () => {
    assert.deepEqual(checksOf(await warningsAfter('', 'ip link set lo up')), ['ipv4_route']);
    const onlyIpv6 = `ip link set lo up; ip link add uplink type veth peer name other
      ip link set uplink up; ip link set other up
      ip -6 addr add 2001:db8::2/64 dev uplink nodad; ip -6 route add default via 2001:db8::1`;
    assert.deepEqual(checksOf(await warningsAfter('', onlyIpv6)), ['ipv4_route']);
    const dual = `${UPLINK}; ip -6 addr add 2001:db8::2/64 dev uplink nodad; ip -6 route add default via 2001:db8::1`;
    assert.deepEqual(await warningsAfter('', dual), []);
  });

  it('a measurement of the firewalls of a host leaves nothing behind when it is killed', async () => {
    // At the moment when links and rules are there.
    const killed = program(`const { execFileSync } = await import('node:child_process');
      for (let tried = 0; tried < 10_000; tried += 1) {
        await new Promise((resolve) => setImmediate(resolve));
        if (/^c[le]/m.test(execFileSync('ip', ['-brief', 'link'], { encoding: 'utf8' }))) process.kill(process.pid, 9);
      }`);
    const script = `${UPLINK}
      ${firewall({ input: 'policy drop', forward: 'policy drop' })}
      "$@" || echo killed
      nft delete table inet own
      for try in $(seq 100); do left=$(${NOTHING_LEFT}); [ -z "$left" ] && break; sleep 0.1; done; echo "$left"`;
    assert.equal((await onHost(script, killed)).trim(), 'killed');
  });
});
