import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { tryLock, withLock } from './build-lock.ts';

describe('withLock', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-lock-'));
  });
  after(() => rm(folder, { recursive: true }));

  it('withLock lets one work at a time, and tells the other that it waits', async () => {
    const file = join(folder, 'one');
    const events: string[] = [];
    const first = Promise.withResolvers<void>();
    const holding = withLock(file, async () => {
      const second = withLock(file, async () => events.push('second'), first.resolve);
      await first.promise;
      events.push('first');
      return { second };
    });
    await (await holding).second;
    assert.deepEqual(events, ['first', 'second']);
  });

  it('withLock is free again after work that throws', async () => {
    const file = join(folder, 'throws');
    await assert.rejects(
      withLock(file, () => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.equal(await withLock(file, async () => 'done'), 'done');
  });

  it('withLock is free again when its holder is killed', async () => {
    const file = join(folder, 'killed');
    const program = `
      import { tryLock, withLock } from ${JSON.stringify(new URL('./build-lock.ts', import.meta.url).href)};
      await withLock(${JSON.stringify(file)}, async () => { console.log('held'); await new Promise((r) => setTimeout(r, 60_000)); });`;
    const holder = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(holder.stdout, 'data');
    holder.kill('SIGKILL');
    assert.equal(await withLock(file, async () => 'done'), 'done');
  });
});

describe('tryLock', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-lock-'));
  });
  after(() => rm(folder, { recursive: true }));

  it('tryLock gives up when another process holds the lock', async () => {
    const file = join(folder, 'held');
    await withLock(file, async () => assert.equal(await tryLock(file, 0), undefined));
  });

  it('tryLock gets a lock that becomes free while it waits', async () => {
    const file = join(folder, 'freed');
    const first = await tryLock(file, 0);
    const second = tryLock(file, 60_000);
    assert.ok(first);
    await first.release();
    const lock = await second;
    assert.ok(lock);
    await lock.release();
  });
});
