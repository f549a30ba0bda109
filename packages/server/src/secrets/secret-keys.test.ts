import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { SecretKeys } from './secret-keys.ts';

const SERVERS = 4;
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
  it('are the same for servers that start at once, and each opens what another has sealed', async () => {
    // Each waits until all have loaded their modules.
    const program = `
      import { existsSync, readdirSync, writeFileSync } from 'node:fs';
      import { SecretKeys } from ${JSON.stringify(import.meta.resolve('./secret-keys.ts'))};
      const [folder, name] = process.argv.slice(-2);
      writeFileSync(folder + '/ready-' + name, '');
      while (readdirSync(folder).filter((each) => each.startsWith('ready-')).length < ${SERVERS});
      const keys = SecretKeys.open({ setting: undefined, file: folder + '/secrets-key' });
      process.stdout.write(keys.seal('value of ' + name, 'sec_' + name));`;
    const names = Array.from({ length: SERVERS }, (_, index) => String(index));
    const sealed = await Promise.all(
      names.map((name) => run(process.execPath, ['--input-type=module', '-e', program, '--', folder, name])),
    );
    const keys = open();
    const opened = names.map((name, index) => keys.open(sealed[index]?.stdout ?? '', `sec_${name}`));
    assert.deepEqual(
      opened,
      names.map((name) => `value of ${name}`),
    );
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.endsWith('.new')),
      [],
    );
  });

  it('follow the rotation of another one', () => {
    const [rotating, other] = [open(), open()];
    const before = other.seal('old', 'sec_1');
    rotating.renew();
    const after = rotating.seal('new', 'sec_1');
    assert.equal(other.open(after, 'sec_1'), 'new');
    assert.equal(rotating.isCurrent(before), false);
    assert.equal(rotating.isCurrent(other.seal('later', 'sec_2')), true);
  });
});
