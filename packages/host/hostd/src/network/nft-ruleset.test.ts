import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nftGuardRuleset, nftRuleset } from './nft-ruleset.ts';

const OPTIONS = {
  installationId: 'abcd1234',
  gatewayAddress: '198.18.0.1',
  dnsPort: 10_053,
  ranges: { allowCidrs: [], denyCidrs: [] },
  datagramSandboxes: [],
  probe: { open: '198.18.0.6', gated: '198.18.0.10', target: '198.18.0.14' },
};

test('the nft ruleset replaces the rules of an earlier run in one transaction', () => {
  const [first, second, third] = nftRuleset(OPTIONS).split('\n');
  assert.deepEqual(
    [first, second, third],
    ['table inet cloche_abcd1234', 'delete table inet cloche_abcd1234', 'table inet cloche_abcd1234 {'],
  );
});

test('the nft ruleset closes the ranges that the contract names, and leaves the documentation ranges open', () => {
  const closed = /set closed \{(.*)\}/.exec(nftRuleset(OPTIONS))?.[1] ?? '';
  const ranges = `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16
    198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32 192.0.0.0/24 192.88.99.0/24`;
  for (const range of ranges.split(/\s+/)) assert.ok(closed.includes(range), range);
  for (const range of ['192.0.2.0', '198.51.100.0', '203.0.113.0']) assert.ok(!closed.includes(range), range);
});

test('the nft ruleset opens what the operator opens, but never what the operator closes, nor other sandboxes', () => {
  const ranges = { allowCidrs: ['10.1.0.0/16', '198.18.0.0/15'], denyCidrs: ['10.1.2.0/24', '2001:67c::/32'] };
  const rules = nftRuleset({ ...OPTIONS, ranges });
  assert.match(rules, /set opened \{.*10\.1\.0\.0\/16/);
  assert.match(rules, /set closed_by_operator \{.*10\.1\.2\.0\/24/);
  // Sandboxes have no IPv6.
  assert.doesNotMatch(rules, /2001:67c/);
  const inOrder = ['198.18.0.0/16 jump refused', '@closed_by_operator jump', '@opened accept', '@closed jump refused'];
  const order = inOrder.map((rule) => rules.indexOf(rule));
  assert.ok(order.every((at) => at > 0));
  assert.deepEqual(
    order,
    order.toSorted((a, b) => a - b),
  );
});

test('the nft ruleset has no rule that touches other traffic than that of its own sandboxes', () => {
  // Only rules of other chains reach these chains, and this test checks those rules.
  const reachedByRules = /chain (share|refused|from_gated|to_gated) \{.*?\n {2}\}/gs;
  const rules = nftRuleset(OPTIONS)
    .replaceAll(reachedByRules, '')
    .split('\n')
    .filter((line) => /\b(accept|drop|reject|dnat|jump|masquerade)\b/.test(line) && !line.includes('policy accept'));
  assert.ok(rules.length > 10);
  for (const rule of rules) assert.match(rule, /ifname "c[le]abcd1234\*"|ip saddr 198\.18\.0\.0\/16 masquerade/);
});

test("redirects DNS look-ups to the relay's port, and admits nothing else", () => {
  const rules = nftRuleset(OPTIONS);
  assert.match(rules, /ip daddr 198\.18\.0\.1 udp dport 53 dnat ip to 198\.18\.0\.1:10053/);
  assert.match(rules, /chain to_host \{[^}]*ct status dnat udp dport 10053 accept[^}]*reject/);
});

/** Returns whether a rule is only for an address that hostd has, and no sandbox. */
const isOfProbe = (line: string) => /ip [sd]addr 198\.18\.0\.(6|10) /.test(line);

test('the nft ruleset lets only the probe of a class reach its two targets, and lets nothing of it leave the host', () => {
  const probing = nftRuleset(OPTIONS).split('\n').filter(isOfProbe);
  const passing = (link: string, address: string) => [
    `    iifname "${link}abcd1234*" ip saddr ${address} ip daddr { 192.0.2.1, 198.18.0.14 } accept`,
    `    oifname "${link}abcd1234*" ip saddr 198.18.0.14 ip daddr ${address} ct state established accept`,
  ];
  assert.deepEqual(probing, [...passing('cl', '198.18.0.6'), ...passing('ce', '198.18.0.10')]);
  const guard = nftGuardRuleset(OPTIONS, 1);
  for (const address of ['198.18.0.6', '198.18.0.10']) {
    assert.match(guard, new RegExp(`ip saddr ${address} ip daddr 192.0.2.1 counter name \\w+ drop`));
  }
});

test('the nft ruleset forwards nothing of a gated sandbox, and admits it at egress only', () => {
  const rules = nftRuleset(OPTIONS);
  const gated = rules.split('\n').filter((line) => line.includes('"ceabcd1234*"'));
  for (const rule of gated.filter((line) => line.includes('accept') && !isOfProbe(line))) {
    assert.match(
      rule,
      /iifname "ceabcd1234\*" ip daddr 198\.18\.0\.1 ct status dnat (tcp|udp) dport 100(54|80) accept/,
    );
  }
  const others = rules.split('\n').filter((line) => !isOfProbe(line));
  assert.match(others.join('\n'), /chain through_host \{\n[^\n]*\n\s+iifname "ceabcd1234\*" goto from_gated\n/);
  assert.match(rules, /chain from_gated \{\n\s+ip saddr != @datagram_senders goto refused\n/);
  assert.match(rules, /set datagram_senders \{ type ipv4_addr; {2}\}/);
});

test('the nft ruleset forwards datagrams of a gated sandbox only with a denylist, and not to the denied addresses', () => {
  const datagramSandboxes = [{ address: '198.18.0.6', denied: ['192.0.2.1', '192.0.2.2'] }];
  const rules = nftRuleset({ ...OPTIONS, datagramSandboxes });
  assert.match(rules, /set datagram_senders \{ type ipv4_addr; elements = \{ 198\.18\.0\.6 \} \}/);
  assert.match(rules, /elements = \{ 198\.18\.0\.6 \. 192\.0\.2\.1, 198\.18\.0\.6 \. 192\.0\.2\.2 \}/);
  const chain = rules.slice(rules.indexOf('chain from_gated'), rules.indexOf('chain to_gated'));
  const accepting = chain.indexOf('accept');
  for (const refused of ['!= { udp, icmp }', 'dport 53', '@denied_to_senders', '@th,72,32', '198.18.0.0/16']) {
    assert.ok(chain.indexOf(refused) >= 0 && chain.indexOf(refused) < accepting, refused);
  }
});

test('the nft ruleset refuses the same in the guard table, which redirects nothing', () => {
  const refusing = (rules: string) =>
    rules.split('\n').filter((line) => /\b(drop|reject|jump|accept)\b|^ {2}set /.test(line) && !/type nat/.test(line));
  const guard = nftGuardRuleset(OPTIONS, 1);
  const withoutTrap = guard.slice(0, guard.indexOf('counter probe_arrivals'));
  assert.deepEqual(refusing(withoutTrap), refusing(nftRuleset(OPTIONS)));
  assert.doesNotMatch(guard, /type nat|masquerade|dnat ip to/);
});
