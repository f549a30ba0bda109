import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultPoolSize } from './default-pool-size.ts';

const MEBIBYTE = 1024 * 1024;

test('instances of the default pool hold at most a sixteenth of the host memory', () => {
  for (const hostMebibytes of [512, 4096, 16_384]) {
    const hostBytes = hostMebibytes * MEBIBYTE;
    for (const instanceBytes of [24 * MEBIBYTE, 160 * MEBIBYTE]) {
      const size = defaultPoolSize(instanceBytes, hostBytes);
      assert.ok(size * instanceBytes <= hostBytes / 16, `${size} of ${instanceBytes} bytes`);
      assert.ok(size === 64 || (size + 1) * instanceBytes > hostBytes / 16, 'one more would fit');
    }
  }
});

test('the default pool is smaller where each instance holds more', () => {
  const hostBytes = 4096 * MEBIBYTE;
  assert.ok(defaultPoolSize(160 * MEBIBYTE, hostBytes) < defaultPoolSize(24 * MEBIBYTE, hostBytes));
});

test('the default pool has a limit on hosts with much memory', () => {
  assert.equal(defaultPoolSize(MEBIBYTE, 2 ** 50), defaultPoolSize(MEBIBYTE, 2 ** 51));
});
