import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DiskSpace, type DiskSpaceDeps } from './disk-space.ts';

const GIBIBYTE = 1024 ** 3;
const SHORT = { code: 'unavailable', retryAfterSeconds: 30 };

function space(options: Partial<DiskSpaceDeps> = {}) {
  const volume = { freeBytes: 10 * GIBIBYTE, totalBytes: 100 * GIBIBYTE };
  const seen = { reads: 0, lines: 0, now: 0 };
  const disk = new DiskSpace('/data', {
    clock: { now: () => seen.now },
    log: { error: () => Object.assign(seen, { lines: seen.lines + 1 }) },
    read: async () => {
      seen.reads += 1;
      return volume;
    },
    ...options,
  });
  return { disk, volume, seen };
}

describe('disk space', () => {
  it('disk space is refused below the reserve: 5 % of the volume, 2 GiB at most, or what is set', async () => {
    const { disk, volume, seen } = space();
    await disk.require();
    for (const [freeBytes, totalBytes] of [
      [2 * GIBIBYTE - 1, 100 * GIBIBYTE],
      [0.5 * GIBIBYTE - 1, 10 * GIBIBYTE],
    ]) {
      seen.now += 1000;
      Object.assign(volume, { freeBytes, totalBytes });
      await assert.rejects(disk.require(), SHORT);
    }
    const set = space({ reserveBytes: 11 * GIBIBYTE });
    await assert.rejects(set.disk.require(), SHORT);
  });

  it('disk space is read once a second however many ask, and comes back with the space', async () => {
    const { disk, volume, seen } = space();
    await Promise.all(Array.from({ length: 100 }, () => disk.require()));
    assert.equal(seen.reads, 1);
    volume.freeBytes = 0;
    seen.now += 1000;
    await assert.rejects(disk.require(), SHORT);
    volume.freeBytes = 10 * GIBIBYTE;
    seen.now += 1000;
    await disk.require();
  });

  it('disk space tells the operator once a minute', async () => {
    const { disk, seen } = space({ reserveBytes: 11 * GIBIBYTE });
    for (let second = 0; second < 120; second += 1) {
      await assert.rejects(disk.require(), SHORT);
      seen.now += 1000;
    }
    assert.equal(seen.lines, 2);
  });

  it('disk space is not judged where the volume cannot be looked at', async () => {
    const { disk } = space({ read: () => Promise.reject(new Error('ENOENT')) });
    await disk.require();
  });
});
