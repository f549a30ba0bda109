import assert from 'node:assert/strict';
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

/** Time for the code to begin. */
const BEGUN_MS = 1_500;
/** Programs of a sandbox that hinder its pause. */
const HOSTILE: Readonly<Record<string, string>> = {
  'forks without an end': 'while :; do (:) & wait $!; done',
  'has as many processes as it may': 'while :; do sleep 600 & done',
  'fills its memory': 'python3 -c "held = bytearray(2 ** 34)\nwhile True: held[::4096] = held[::4096]"; tail /dev/zero',
  'stops its agent': 'kill -STOP 1 $(pgrep -x -f ".*agent.*") ; sleep 600',
};
/** Longest time of a pause, whatever is in the sandbox, and what a busy machine adds. */
const LONGEST_PAUSE_MS = 3_000 + 2_000;

describe('a sandbox whose code is hostile to its pause', { concurrency: 2 }, () => {
  for (const [title, script] of Object.entries(HOSTILE)) {
    it(`idle/F5: a sandbox whose code ${title} is paused or refused in time, stands still, and ends`, async (t) => {
      const [sandbox, neighbour] = [await PausedSandbox.create(service), await PausedSandbox.create(service)];
      await neighbour.value('1');
      await new SandboxCommands(service, sandbox.id).start(script, { user: 'root' });
      await delay(BEGUN_MS);
      const startedAt = performance.now();
      const { status, body } = await service.api.post(`${sandbox.path}/pause`, {});
      const tookMs = performance.now() - startedAt;
      assert.ok(status === 200 || body.error.code === 'unavailable', JSON.stringify(body));
      assert.ok(tookMs < LONGEST_PAUSE_MS, `${tookMs} ms`);
      await eventually(() => sandbox.isFrozen() === (status === 200));
      assert.equal(await neighbour.value('1'), '1');
      assert.equal((await sandbox.delete()).status, 'destroyed');
      await eventually(() => sandbox.hasNoInstance());
      t.diagnostic(`${status} after ${Math.round(tookMs)} ms`);
      await neighbour.delete();
    });
  }
});
