/** Changes the links, routes and rules of a network namespace of its own. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

const MODULE = new URL('./network-changes.ts', import.meta.url).href;

/** Returns for each command whether a change was seen after it. */
function changesAfter(commands: readonly string[]): boolean[] {
  const program = `import { NetworkChanges } from ${JSON.stringify(MODULE)};
    import { execFileSync } from 'node:child_process';
    using changes = new NetworkChanges();
    const seen = ${JSON.stringify(commands)}.map((command) => {
      execFileSync('sh', ['-euc', command]);
      return changes.take();
    });
    console.log(JSON.stringify([...seen, changes.take()]));`;
  const inside = ['--net', '--', process.execPath, '--input-type=module', '-e', program];
  return JSON.parse(execFileSync('unshare', inside, { encoding: 'utf8' }));
}

test('tells of links, routes and rules of others, once', () => {
  const seen = changesAfter([
    'ip link add eth7 type veth peer name eth8',
    'ip link set eth7 up; ip addr add 203.0.113.2/24 dev eth7',
    'ip route add default via 203.0.113.1 dev eth7 onlink',
    'ip route del default',
    'nft add table inet own',
    `nft 'add chain inet own in { type filter hook input priority 0; }'`,
    'nft add rule inet own in tcp dport 25 drop',
    'nft flush chain inet own in',
  ]);
  assert.deepEqual(seen, [true, true, true, true, true, true, true, true, false]);
});

test("a watch of the host's network leaves out Cloche's own links, routes and rules", () => {
  const seen = changesAfter([
    'ip link add clabcd123417 type veth peer name ceabcd123417',
    'ip link set clabcd123417 up; ip addr add 198.18.0.5/30 dev clabcd123417',
    'nft add table inet cloche_abcd1234; nft add set inet cloche_abcd1234 s "{ type ipv4_addr; }"',
    'nft add element inet cloche_abcd1234 s "{ 198.18.0.6 }"; nft delete table inet cloche_abcd1234',
    'ip link del clabcd123417',
  ]);
  assert.deepEqual(seen, [false, false, false, false, false, false]);
});

test('tells of changes that were more than the kernel keeps', () => {
  const many = `for i in $(seq 3000); do echo "add element inet cloche_abcd1234 s { 10.0.$((i / 256)).$((i % 256)) }"; done`;
  const set = 'nft add table inet cloche_abcd1234; nft add set inet cloche_abcd1234 s "{ type ipv4_addr; }"';
  assert.deepEqual(changesAfter([`${set}; { ${many}; } | nft -f -`]), [true, false]);
});
