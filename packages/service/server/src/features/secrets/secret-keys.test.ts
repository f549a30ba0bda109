import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { SecretKeys } from './secret-keys.ts';

const SERVERS = 4;
const NAMES = Array.from({ length: SERVERS }, (_, index) => String(index));
const run = promisify(execFile);

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-secret-keys-'));
  file = join(folder, 'secrets-key');
});
afterEach(() => rmSync(folder, { recursive: true }));

const open = () => SecretKeys.open({ setting: undefined, file });

describe('the keys of servers with one data folder', () => {
  it('the keys of servers with one data folder are the same for servers that start at once, and each opens what another has sealed', async () => {
    const sealed = await runAtOnce("process.stdout.write(keys.seal('value of ' + name, 'sec_' + name));");
    const keys = open();
    const opened = NAMES.map((name, index) => keys.open(sealed[index] ?? '', `sec_${name}`));
    assert.deepEqual(
      opened,
      NAMES.map((name) => `value of ${name}`),
    );
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith('.new')),
      [],
    );
  });

  it('the keys of servers with one data folder follow the rotation of another one', () => {
    const [rotating, other] = [open(), open()];
    const before = other.seal('old', 'sec_1');
    rotating.renew();
    const after = rotating.seal('new', 'sec_1');
    assert.equal(other.open(after, 'sec_1'), 'new');
    assert.equal(rotating.isCurrent(before), false);
    assert.equal(rotating.isCurrent(other.seal('later', 'sec_2')), true);
  });

  it('the keys of servers with one data folder are all kept when one server renews them after another', () => {
    const [one, other] = [open(), open()];
    const sealed = [one, other, one].map((keys, index) => {
      keys.renew();
      return keys.seal(`value ${index}`, 'sec_1');
    });
    for (const keys of [one, other, open()]) {
      assert.deepEqual(
        sealed.map((each) => keys.open(each, 'sec_1')),
        ['value 0', 'value 1', 'value 2'],
      );
    }
  });

  it('the keys of servers with one data folder are all kept when several processes renew them at once', async () => {
    await runAtOnce('for (let count = 0; count < 25; count += 1) keys.renew();');
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    assert.equal(new Set(lines).size, 1 + SERVERS * 25);
  });

  it('the keys of servers with one data folder are kept but for those named, if a server deletes late what it found unused', () => {
    const [late, other] = [open(), open()];
    const kept = late.seal('first', 'sec_1');
    late.renew();
    const unused = late.othersThanCurrent();
    assert.equal(unused.length, 1);
    other.renew();
    const sealed = other.seal('newest', 'sec_1');
    late.forget(unused);
    assert.equal(late.open(sealed, 'sec_1'), 'newest');
    assert.equal(readFileSync(file, 'utf8').trim().split('\n').length, 2);
    assert.throws(() => open().open(kept, 'sec_1'), /is missing/);
    // The key that encrypts is never deleted.
    late.forget([sealed.split('.')[0] ?? '']);
    assert.equal(open().open(sealed, 'sec_1'), 'newest');
  });

  it('the keys of servers with one data folder are not replaced by a new one when their file is lost', () => {
    const keys = open();
    const sealed = keys.seal('value', 'sec_1');
    const content = readFileSync(file);
    rmSync(file);
    assert.throws(() => keys.renew(), /has no key/);
    writeFileSync(file, content, { mode: 0o600 });
    assert.equal(keys.open(sealed, 'sec_1'), 'value');
  });
});

/** Runs a program in several processes, with `keys` open. Each waits until all have loaded their modules. */
async function runAtOnce(act: string): Promise<string[]> {
  const program = `
    import { readdirSync, writeFileSync } from 'node:fs';
    import { SecretKeys } from ${JSON.stringify(import.meta.resolve('./secret-keys.ts'))};
    const [folder, name] = process.argv.slice(-2);
    writeFileSync(folder + '/ready-' + name, '');
    while (readdirSync(folder).filter((each) => each.startsWith('ready-')).length < ${SERVERS});
    const keys = SecretKeys.open({ setting: undefined, file: folder + '/secrets-key' });
    ${act}`;
  const processes = NAMES.map((name) =>
    run(process.execPath, ['--input-type=module', '-e', program, '--', folder, name]),
  );
  return (await Promise.all(processes)).map(({ stdout }) => stdout);
}
