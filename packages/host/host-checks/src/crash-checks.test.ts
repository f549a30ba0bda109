import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { checkCrashHandler, checkSetIdDumps, limitCrashHandlers } from './crash-checks.ts';

describe("the host's crash handling", () => {
  let root: string;
  const set = (file: string, value: string) => writeFileSync(join(root, file), `${value}\n`);

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'sysctls-'));
    for (const folder of ['kernel', 'fs']) mkdirSync(join(root, folder));
    set('kernel/core_pattern', 'core');
    set('kernel/core_pipe_limit', '0');
    set('fs/suid_dumpable', '0');
  });
  afterEach(() => rmSync(root, { recursive: true }));

  it("the host's crash handling is fine where the kernel writes core files, which the limits of sandboxes prevent", async () => {
    assert.equal((await checkCrashHandler(root)).status, 'ok');
    assert.deepEqual(await limitCrashHandlers(root), []);
  });

  for (const handler of ['|/usr/share/apport/apport %p', '@/run/systemd/coredump']) {
    it(`the host's crash handling is a warning where crashes go to ${handler.split(' ')[0]}, and its number is bounded`, async () => {
      set('kernel/core_pattern', handler);
      assert.match((await checkCrashHandler(root)).found, /any number at once/);
      assert.deepEqual(await limitCrashHandlers(root), ['kernel.core_pipe_limit 0 → 16']);
      assert.equal(readFileSync(join(root, 'kernel/core_pipe_limit'), 'utf8').trim(), '16');
      const { status, found } = await checkCrashHandler(root);
      assert.equal(status, 'warning');
      assert.match(found, /16 at once/);
    });
  }

  it("the host's crash handling keeps the limit that the operator has set", async () => {
    set('kernel/core_pattern', '|/handler');
    set('kernel/core_pipe_limit', '4');
    assert.deepEqual(await limitCrashHandlers(root), []);
  });

  it("the host's crash handling is a warning where processes that change their user can be traced", async () => {
    assert.equal((await checkSetIdDumps(root)).status, 'ok');
    set('fs/suid_dumpable', '2');
    assert.equal((await checkSetIdDumps(root)).status, 'ok');
    set('fs/suid_dumpable', '1');
    assert.equal((await checkSetIdDumps(root)).status, 'warning');
  });
});
