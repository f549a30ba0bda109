/**
 * A service in a network namespace of its own, as in a container: kernel settings of the whole machine are absent or
 * cannot be written there, and `/sys` may show the links of another namespace.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { execa } from 'execa';

it('serves in a network namespace of its own, counts traffic, and leaves no link behind', async () => {
  const program = [process.execPath, 'e2e/machines/support/first-result.ts'];
  const inside = ['sh', '-c', 'ip link set lo up; exec "$@"', 'sh', ...program];
  const { stdout } = await execa('unshare', ['--net', ...inside], { timeout: 300_000 });
  const { outputs, networkBytes, left } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  assert.deepEqual(
    outputs.map(({ value }: { value: string }) => value),
    ['42'],
  );
  assert.ok(networkBytes.egress > 0, JSON.stringify(networkBytes));
  assert.deepEqual(left, []);
});
