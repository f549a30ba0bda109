import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { insideOf, meansContent, readEndpoint } from './endpoint.ts';
import { packLocal, unpackLocal } from './local-tree.ts';

describe('a side of a copy', () => {
  it('is in a sandbox, here, or a standard stream', () => {
    assert.deepEqual(readEndpoint('sbx_1:/a b'), { kind: 'sandbox', sandboxId: 'sbx_1', path: '/a b' });
    assert.deepEqual(readEndpoint('sbx_1:a:b'), { kind: 'sandbox', sandboxId: 'sbx_1', path: 'a:b' });
    assert.deepEqual(readEndpoint('-'), { kind: 'standard' });
    for (const path of ['a', './sbx_1:a', 'C:/a', 'other:a', 'sub/sbx_1:a'])
      assert.deepEqual(readEndpoint(path), { kind: 'local', path });
    assert.throws(() => readEndpoint('sbx_1:'), { exitCode: 2 });
  });

  it('keeps its name inside a directory, and is its content with a dot', () => {
    assert.equal(insideOf('to/', 'a/b/'), 'to/b');
    assert.deepEqual(['.', '..', 'a/.', 'a/..', '/', 'a', 'a/', 'a.', '.a'].map(meansContent), [
      true,
      true,
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });
});

describe('a directory of this machine', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-copy-'));
    for (const name of ['from/sub', 'to']) mkdirSync(join(folder, name), { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is packed and unpacked', async () => {
    writeFileSync(join(folder, 'from/sub/program'), 'x', { mode: 0o755 });
    await unpackLocal(join(folder, 'to'), packLocal(join(folder, 'from')));
    assert.deepEqual(readdirSync(join(folder, 'to'), { recursive: true }).sort(), ['sub', 'sub/program']);
    assert.equal(statSync(join(folder, 'to/sub/program')).mode & 0o100, 0o100);
  });

  it('that cannot be read whole fails, instead of ending early', async () => {
    const read = async () => {
      for await (const _ of packLocal(join(folder, 'nothing')));
    };
    await assert.rejects(read, { name: 'CliError', message: /nothing/ });
  });

  it('is not left by an archive that climbs out', async () => {
    writeFileSync(join(folder, 'from/file'), 'x');
    const { execFileSync } = await import('node:child_process');
    const archive = execFileSync('tar', ['-cPf', '-', '--transform', 's,^,../escaped-,', 'file'], {
      cwd: join(folder, 'from'),
    });
    await unpackLocal(join(folder, 'to'), [archive] as never).catch(() => undefined);
    assert.deepEqual(readdirSync(folder).sort(), ['from', 'to']);
    assert.equal(readFileSync(join(folder, 'from/file'), 'utf8'), 'x');
  });

  it('says what tar says of an archive that is none', async () => {
    const source = (async function* () {
      yield Buffer.alloc(2000, 'nonsense');
    })();
    await assert.rejects(unpackLocal(join(folder, 'to'), source), { name: 'CliError', message: /^tar: / });
  });

  it('passes on why an archive broke off', async () => {
    const source = (async function* () {
      yield Buffer.alloc(512);
      throw new Error('the connection broke');
    })();
    await assert.rejects(unpackLocal(join(folder, 'to'), source), /the connection broke/);
  });
});
