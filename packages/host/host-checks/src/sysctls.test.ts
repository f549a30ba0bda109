import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { checkSysctls, HOST_SYSCTLS, raiseSysctls } from './sysctls.ts';

describe("settings of the host's kernel", () => {
  let root: string;
  const fileOf = (name: string) => join(root, name.replaceAll('.', '/'));
  const set = (name: string, value: number | string) => {
    mkdirSync(dirname(fileOf(name)), { recursive: true });
    writeFileSync(fileOf(name), `${value}\n`);
  };

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'sysctls-'));
    for (const { name, atLeast } of HOST_SYSCTLS) set(name, atLeast);
  });
  afterEach(() => rmSync(root, { recursive: true }));

  it("settings of the host's kernel are raised where they are lower, and each change is returned", async () => {
    set('kernel.pid_max', 32_768);
    assert.deepEqual(await raiseSysctls(root), ['kernel.pid_max 32768 → 4194304']);
    assert.equal(readFileSync(fileOf('kernel.pid_max'), 'utf8').trim(), '4194304');
    assert.deepEqual(await raiseSysctls(root), []);
  });

  it("settings of the host's kernel are never lowered", async () => {
    set('fs.file-max', '9223372036854775807');
    assert.deepEqual(await raiseSysctls(root), []);
    assert.equal(readFileSync(fileOf('fs.file-max'), 'utf8').trim(), '9223372036854775807');
  });

  it("settings of the host's kernel are skipped where this kernel does not have them", async () => {
    rmSync(fileOf('fs.inotify.max_user_watches'));
    assert.deepEqual(await raiseSysctls(root), []);
    assert.equal((await checkSysctls(root)).status, 'ok');
  });

  it("settings of the host's kernel are a warning with a remedy where they are too low", async () => {
    set('kernel.pid_max', 32_768);
    const { status, found, remedy } = await checkSysctls(root);
    assert.equal(status, 'warning');
    assert.equal(found, 'kernel.pid_max 32768, needs 4194304');
    assert.match(remedy, /sysctl -w kernel\.pid_max=4194304`/);
  });
});
