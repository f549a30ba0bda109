import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatagramGate, deniedDatagramAddresses } from './datagram-gate.ts';

function gateWith(apply: (commands: string) => void, living: ReadonlyMap<number, string[]> = new Map()) {
  const installed: string[][] = [];
  const gate: DatagramGate = new DatagramGate(
    {
      tables: ['guard', 'rules'],
      apply,
      reinstall: async () => void installed.push(gate.sandboxes().map(({ address }) => address)),
    },
    living,
  );
  return { gate, installed };
}

test('datagrams flow only with a denylist, and not to its addresses', () => {
  assert.deepEqual(deniedDatagramAddresses({ mode: 'denylist', hosts: ['a.example', '192.0.2.1', '*.b.example'] }), [
    '192.0.2.1',
  ]);
  assert.deepEqual(deniedDatagramAddresses({ mode: 'denylist', hosts: [] }), []);
  for (const mode of ['allowlist', 'unrestricted', 'deny-all'] as const) {
    assert.equal(deniedDatagramAddresses({ mode, hosts: ['192.0.2.1'] }), undefined, mode);
  }
});

test('a sandbox and its denied addresses are one transaction in both tables', async () => {
  const applied: string[] = [];
  const { gate } = gateWith((commands) => void applied.push(commands));
  await gate.open(1, ['192.0.2.1']);
  assert.deepEqual(applied[0]?.split('\n'), [
    'add element inet guard datagram_senders { 198.18.0.6 }',
    'add element inet guard denied_to_senders { 198.18.0.6 . 192.0.2.1 }',
    'add element inet rules datagram_senders { 198.18.0.6 }',
    'add element inet rules denied_to_senders { 198.18.0.6 . 192.0.2.1 }',
  ]);
  await gate.close(1);
  await gate.close(1);
  assert.equal(applied.length, 2);
  assert.match(applied[1] ?? '', /^delete element inet guard datagram_senders \{ 198\.18\.0\.6 \}/);
});

test('the next sandbox with a slot does not inherit denied addresses', async () => {
  const applied: string[] = [];
  const { gate } = gateWith((commands) => void applied.push(commands), new Map([[1, ['192.0.2.1']]]));
  await gate.open(1, []);
  assert.match(applied.join('\n'), /delete element inet rules denied_to_senders \{ 198\.18\.0\.6 \. 192\.0\.2\.1 \}/);
  assert.deepEqual(gate.sandboxes(), [{ address: '198.18.0.6', denied: [] }]);
});

test('rules that another program removed are recreated with the sandbox', async () => {
  const { gate, installed } = gateWith((commands) => {
    if (commands.includes('inet rules')) throw new Error('No such file or directory');
  });
  await gate.open(1, []);
  assert.deepEqual(installed, [['198.18.0.6']]);
});

test('a guard table that rejects the change fails the launch', async () => {
  const { gate } = gateWith(() => {
    throw new Error('no');
  });
  await assert.rejects(gate.open(1, []), /no/);
});
