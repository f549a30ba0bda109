import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { ROOT_RIGHTS, UserRights } from './rights.ts';

const USER = { uid: 1000, gid: 1000 };
const rights = new UserRights(USER);
let folder: string;
let secret: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-rights-'));
  chmodSync(folder, 0o711);
  secret = join(folder, 'secret');
  writeFileSync(secret, 'of root', { mode: 0o600 });
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('what is done with the rights of the user', { skip: needsRoot }, () => {
  it('what is done with the rights of the user may do what the user may, and no more', () => {
    assert.throws(() => rights.run(() => readFileSync(secret)), { code: 'EACCES' });
    assert.throws(() => rights.run(() => writeFileSync(join(folder, 'new'), '')), { code: 'EACCES' });
    assert.throws(() => rights.run(() => chownSync(secret, 1000, 1000)), { code: 'EPERM' });
    assert.equal(
      ROOT_RIGHTS.run(() => readFileSync(secret, 'utf8')),
      'of root',
    );
  });

  it('what is done with the rights of the user has no group but that of the user', () => {
    writeFileSync(join(folder, 'of-group'), '', { mode: 0o640 });
    assert.throws(() => rights.run(() => readFileSync(join(folder, 'of-group'))), { code: 'EACCES' });
    chownSync(join(folder, 'of-group'), 0, USER.gid);
    assert.equal(
      rights.run(() => readFileSync(join(folder, 'of-group'), 'utf8')),
      '',
    );
  });

  it('what is done with the rights of the user makes files of the user', () => {
    mkdirSync(join(folder, 'open'));
    chmodSync(join(folder, 'open'), 0o777);
    rights.run(() => writeFileSync(join(folder, 'open/file'), ''));
    const { uid, gid } = statSync(join(folder, 'open/file'));
    assert.deepEqual({ uid, gid }, USER);
  });

  it('ends with the call, also with one that throws, and with one within another', () => {
    assert.throws(() => rights.run(() => assert.fail('thrown')), /thrown/);
    assert.throws(() => rights.run(() => rights.run(() => readFileSync(secret))), { code: 'EACCES' });
    assert.throws(
      () =>
        rights.run(() => {
          rights.run(() => statSync(secret));
          // Still within the outer call.
          return readFileSync(secret);
        }),
      { code: 'EACCES' },
    );
    assert.deepEqual([process.geteuid?.(), process.getegid?.()], [0, 0]);
    assert.equal(readFileSync(secret, 'utf8'), 'of root');
  });

  it('what is done with the rights of the user changes nothing for other threads', async () => {
    const reads: Promise<string>[] = [];
    for (let attempt = 0; attempt < 200; attempt += 1) {
      reads.push(readFile(secret, 'utf8'));
      rights.run(() => {
        for (const until = performance.now() + 0.2; performance.now() < until; ) statSync(secret);
      });
    }
    for (const content of await Promise.all(reads)) assert.equal(content, 'of root');
  });
});
