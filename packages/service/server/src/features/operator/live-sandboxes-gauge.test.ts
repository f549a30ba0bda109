import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Registry } from 'prom-client';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { registerLiveSandboxesGauge } from './live-sandboxes-gauge.ts';

it('metrics of the database leave out their series while it is away, and the others are served', async () => {
  const db = await openTestDatabase();
  const registry = new Registry();
  registerLiveSandboxesGauge(registry, db);
  assert.match(await registry.metrics(), /^cloche_sandboxes\{status="ready"\} 0$/m);
  await db.destroy();
  assert.doesNotMatch(await registry.metrics(), /^cloche_sandboxes\{/m);
});
