import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import { Measurements, SAMPLE_INTERVAL_MS } from './measurements.ts';

const BEGIN = Date.UTC(2026, 0, 1);

/** Instances that each use a quarter of a core, observed by a clock that the test sets. */
function open(count: number) {
  const world = {
    keys: Array.from({ length: count }, (_, index) => `sbx_${index}-1` as InstanceKey),
    elapsedMs: 5000,
    reads: 0,
  };
  const measurements = new Measurements({
    keys: () => world.keys,
    read: (key) => {
      world.reads += 1;
      if (!world.keys.includes(key)) return undefined;
      return { cpuUs: world.elapsedMs * 250, egressBytes: 7, ingressBytes: 8, memoryBytes: 9 };
    },
    log: pino({ level: 'silent' }),
    elapsedMs: () => world.elapsedMs,
    now: () => BEGIN + world.elapsedMs,
  });
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1000) {
      world.elapsedMs += 1000;
      await measurements.tick();
    }
  };
  return { world, measurements, pass };
}

describe('measurements', () => {
  test('measurements are taken every ten seconds, each with the average use of the processor since the one before', async () => {
    const { world, measurements, pass } = open(1);
    await pass(120_000);
    const [key] = world.keys as [InstanceKey];
    const samples = measurements.samples(key, 0);
    assert.ok(samples.length === 11 || samples.length === 12, `${samples.length}`);
    for (const [index, { at, cpu }] of samples.entries()) {
      assert.equal(cpu, 0.25);
      if (index > 0) assert.equal(at - (samples[index - 1]?.at ?? 0), SAMPLE_INTERVAL_MS);
    }
    const from = samples[4]?.at ?? 0;
    assert.deepEqual(measurements.samples(key, from), samples.slice(4));
  });

  test('measurements of the last hour are kept, no older ones', async () => {
    const { world, measurements, pass } = open(1);
    await pass(2 * 3_600_000);
    const samples = measurements.samples(world.keys[0] as InstanceKey, 0);
    assert.equal(samples.length, 360);
    assert.ok((samples[0]?.at ?? 0) >= BEGIN + world.elapsedMs - 3_600_000);
  });

  test('measurements of many instances that are seen at once are spread over the interval', async () => {
    const { world, pass } = open(500);
    await pass(30_000);
    for (let second = 0; second < 20; second += 1) {
      const before = world.reads;
      await pass(1000);
      assert.equal(world.reads - before, 50);
    }
  });

  test('measurements of an instance that is gone are dropped', async () => {
    const { world, measurements, pass } = open(2);
    await pass(60_000);
    const [gone, stays] = world.keys as [InstanceKey, InstanceKey];
    world.keys = [stays];
    await pass(1000);
    assert.deepEqual(measurements.samples(gone, 0), []);
    assert.deepEqual([...(await measurements.current([gone, stays])).keys()], [stays]);
    assert.ok(measurements.samples(stays, 0).length > 0);
  });

  test('on request average over the time since the last one, and need no sample before', async () => {
    const { world, measurements } = open(1);
    const [key] = world.keys as [InstanceKey];
    const first = measurements.current([key]);
    world.elapsedMs += 250;
    assert.equal((await first).get(key)?.measurement.cpu, 0.25);
    world.elapsedMs += 2000;
    const { measurement } = (await measurements.current([key])).get(key) ?? {};
    assert.deepEqual(measurement, {
      at: BEGIN + world.elapsedMs,
      cpu: 0.25,
      egressBytes: 7,
      ingressBytes: 8,
      memoryBytes: 9,
    });
  });
});
