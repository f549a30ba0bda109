import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeInstallation } from '../../testing/installation.ts';
import { readConfig } from './config.ts';

test('errors name the missing or invalid setting', () => {
  using installation = makeInstallation();
  const { CLOCHE_GUEST_DIR: _guest, ...without } = installation.environment;
  assert.throws(() => readConfig(without), /CLOCHE_GUEST_DIR/);
  assert.throws(() => readConfig({ ...installation.environment, CLOCHE_SERVICE_UID: 'root' }), /CLOCHE_SERVICE_UID/);
  assert.throws(() => readConfig({ ...installation.environment, CLOCHE_LOG_LEVEL: 'loud' }), /CLOCHE_LOG_LEVEL/);
});
