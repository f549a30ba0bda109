import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { SandboxCommands } from '../support/commands.ts';
import { PausedSandbox } from '../support/paused-sandbox.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

const AFTER_IDLE_MS = 2_000;
/** Tests run at the same time, each with a sandbox of its own: they wait for most of their time. */
const AT_ONCE = { concurrency: 3 };

describe('a sandbox with afterIdleMs', AT_ONCE, () => {
  const idle = () => PausedSandbox.create(service, { pause: { afterIdleMs: AFTER_IDLE_MS } });
  const isPaused = async (sandbox: PausedSandbox) => (await sandbox.get()).paused !== undefined;
  /** Resolves with the time of the pause. */
  const pausedAt = async (sandbox: PausedSandbox) => {
    await eventually(() => isPaused(sandbox));
    const { paused } = await sandbox.get();
    assert.equal(paused?.by, 'idle');
    return Date.parse(paused?.at ?? '');
  };

  it('idle/P13: a sandbox with afterIdleMs is paused so long after its last use, and after a wake, also with a silent terminal', async (t) => {
    const sandbox = await idle();
    const terminal = sandbox.openTerminal();
    await once(terminal, 'message');
    const closed = once(terminal, 'close');
    await sandbox.value('1');
    const usedAt = Date.now();
    const firstMs = (await pausedAt(sandbox)) - usedAt;
    assert.ok(firstMs >= AFTER_IDLE_MS - 100, `after ${firstMs} ms`);
    assert.equal((await closed)[0].code, 4410);
    const resumedAt = Date.parse((await sandbox.resume()).resumed?.at ?? '');
    const secondMs = (await pausedAt(sandbox)) - resumedAt;
    assert.ok(secondMs >= AFTER_IDLE_MS, `after ${secondMs} ms`);
    t.diagnostic(`paused ${firstMs} ms after the last use, ${secondMs} ms after the wake`);
    await sandbox.delete();
  });

  it('idle/P13: a sandbox with afterIdleMs is not paused while a request arrives each second', async () => {
    const sandbox = await idle();
    for (const end = performance.now() + 3 * AFTER_IDLE_MS; performance.now() < end; await delay(AFTER_IDLE_MS / 2)) {
      await sandbox.value('1');
    }
    assert.deepEqual(await sandbox.events(), []);
    await pausedAt(sandbox);
    await sandbox.delete();
  });

  it('idle/P13: a sandbox with afterIdleMs is not paused while a background command computes', async () => {
    const sandbox = await idle();
    const script = 'import os, time\nwhile not os.path.exists("stop"): pass\ntime.sleep(600)';
    const commands = new SandboxCommands(service, sandbox.id);
    await commands.start(['python3', '-c', script]);
    await delay(3 * AFTER_IDLE_MS);
    assert.deepEqual(await sandbox.events(), []);
    await commands.run(['touch', 'stop']);
    await pausedAt(sandbox);
    await sandbox.delete();
  });
});
