import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Registry } from 'prom-client';
import { openPauses, pause } from '../../../testing/pauses.ts';
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

it('metrics of the database count a paused sandbox by the place that keeps it, and not as ready', async () => {
  await using world = await openPauses();
  const registry = new Registry();
  registerLiveSandboxesGauge(registry, world.db);
  await world.createReady();
  await pause(world, await world.createReady());
  const text = await registry.metrics();
  assert.match(text, /^cloche_sandboxes\{status="idle",paused="memory"\} 1$/m);
  assert.match(text, /^cloche_sandboxes\{status="ready"\} 1$/m);
});
