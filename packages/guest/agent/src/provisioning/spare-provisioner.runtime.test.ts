import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { CACHE_DIR } from '../../testing/test-cache.ts';
import { readConfig } from '../config.ts';
import { buildGuest } from '../guest/build-guest.ts';
import type { RunMessage } from '../kernels/kernel-listener.ts';
import { KernelProcess } from '../kernels/kernel-process.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import { kernelCommand } from './kernel-command.ts';
import { NO_LISTENER, SpareProvisioner } from './spare-provisioner.ts';

const TIMES = { restockMs: 10, keptMs: 60_000, lookMs: 10, retryMs: 100 };

describe('a spare kernel', () => {
  let guestDir: string;
  let hasRoom = true;
  let started: KernelProcess[] = [];
  const opened: SpareProvisioner[] = [];
  before(async () => {
    ({ guestDir } = await buildGuest({ cacheDir: CACHE_DIR }));
  });
  after(() => Promise.all(opened.map((spares) => spares.close())));

  function sparesWith(times: Partial<typeof TIMES> = {}): SpareProvisioner {
    const config = readConfig({ ...process.env, CLOCHE_LISTEN_PATH: 'none', CLOCHE_GUEST_PATH: guestDir });
    const { uid, gid, baseEnv } = config;
    hasRoom = true;
    started = [];
    const spares = new SpareProvisioner(
      (language, listener) => {
        const command = kernelCommand(language, config);
        const place = { cwd: tmpdir(), env: baseEnv };
        const spec = { command, place, uid, gid, group: new KernelsGroup([]) };
        const kernel = new KernelProcess(spec, listener);
        started.push(kernel);
        return kernel;
      },
      () => hasRoom,
      { ...TIMES, ...times },
    );
    opened.push(spares);
    return spares;
  }

  /** Resolves when that many kernels have been started and the last one is ready. */
  async function hasStarted(count: number): Promise<void> {
    await eventually(() => started[count - 1]?.ready === true, { because: `kernel ${count} is ready` });
  }

  /** Leaves time in which a spare would be started, for tests that none is. */
  const noneIsStarted = () => setTimeout(5 * TIMES.restockMs);

  const gone = async (spares: SpareProvisioner) => {
    await eventually(() => !spares.has('javascript') && !started.some((kernel) => kernel.isAlive()), {
      because: 'every kernel ends',
    });
  };

  test('a spare kernel belongs to the context that takes it, and another is started only on request', async () => {
    const spares = sparesWith();
    spares.restock('javascript');
    spares.restock('javascript');
    await hasStarted(1);
    const taken = spares.provision('javascript', () => true);
    assert.equal(taken, started[0]);
    assert.equal(
      spares.provision('javascript', () => true),
      undefined,
    );
    await noneIsStarted();
    assert.equal(started.length, 1);
    spares.restock('javascript');
    await hasStarted(2);
    await taken?.stop('the test is over');
    assert.ok(spares.has('javascript'));
  });

  test('a spare kernel is not warmed up once a context has it', async () => {
    const spares = sparesWith();
    spares.restock('javascript');
    await hasStarted(1);
    const taken = spares.provision('javascript', () => true) ?? assert.fail('there is a spare');
    const said: { mine: string[]; warmUp: string[] } = { mine: [], warmUp: [] };
    const done = Promise.withResolvers<void>();
    const listener = (to: string[]) => ({
      ...NO_LISTENER,
      message: (message: RunMessage) => void to.push(message.type),
    });
    taken.handTo({
      ...listener(said.mine),
      message: ({ type }) => {
        said.mine.push(type);
        if (type === 'done') done.resolve();
      },
    });
    taken.warmUp({ runId: 'warm-up', code: '0', listener: listener(said.warmUp) });
    taken.execute({ id: 'mine', code: '1 + 1' });
    await done.promise;
    await taken.stop('the test is over');
    assert.deepEqual(said, { mine: ['output', 'done'], warmUp: [] });
  });

  test('a spare kernel stays for another context, if it cannot be placed where it is wanted', async () => {
    const spares = sparesWith();
    spares.restock('javascript');
    await hasStarted(1);
    assert.equal(
      spares.provision('javascript', () => false),
      undefined,
    );
    assert.ok(spares.has('javascript'));
    assert.deepEqual(
      spares.moveAll(() => false),
      ['javascript'],
    );
    await gone(spares);
  });

  test('a spare kernel is not started while the context that requested it starts a kernel', async () => {
    const spares = sparesWith();
    spares.restock('javascript');
    assert.equal(
      spares.provision('javascript', () => true),
      undefined,
    );
    await noneIsStarted();
    assert.equal(started.length, 0);
  });

  test('a spare kernel ends when unused for long, and when memory becomes short', async () => {
    const forShort = sparesWith({ keptMs: 200 });
    forShort.restock('javascript');
    await eventually(() => started.length > 0, { because: 'a spare is started' });
    await gone(forShort);

    const crowded = sparesWith();
    crowded.restock('javascript');
    await hasStarted(1);
    hasRoom = false;
    await gone(crowded);
    crowded.restock('javascript');
    await noneIsStarted();
    assert.equal(started.length, 1);
  });

  test('a spare kernel that dies is replaced, each time later than before, and no longer when it is unlikely to be used', async () => {
    const spares = sparesWith();
    spares.restock('javascript');
    await hasStarted(1);
    for (const [deaths, leastMs] of [TIMES.retryMs, 2 * TIMES.retryMs].entries()) {
      const since = performance.now();
      await started[deaths]?.stop('the test ends it');
      await hasStarted(deaths + 2);
      // A timer can fire a millisecond early.
      assert.ok(performance.now() - since > leastMs - 2);
    }
    const late = sparesWith({ keptMs: 2 * TIMES.retryMs, retryMs: 2 * TIMES.retryMs });
    late.restock('javascript');
    await eventually(() => started.length > 0, { because: 'a spare is started' });
    await started[0]?.stop('the test ends it');
    // Nothing happens: the spare would have been replaced by now.
    await setTimeout(3 * TIMES.retryMs);
    assert.equal(started.length, 1);
  });
});
