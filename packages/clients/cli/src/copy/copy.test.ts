import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { joinLocal, joinSandbox, meansContent, nameOf, readEndpoint } from './endpoint.ts';
import { packLocal } from './pack-local.ts';
import { unpackLocal } from './unpack-local.ts';

describe('a side of a copy', () => {
  it('a side of a copy is in a sandbox, here, or a standard stream', () => {
    assert.deepEqual(readEndpoint('sbx_1:/a b'), { kind: 'sandbox', sandboxId: 'sbx_1', path: '/a b' });
    assert.deepEqual(readEndpoint('sbx_1:a:b'), { kind: 'sandbox', sandboxId: 'sbx_1', path: 'a:b' });
    assert.deepEqual(readEndpoint('-'), { kind: 'standard' });
    for (const path of ['a', './sbx_1:a', 'C:/a', 'other:a', 'sub/sbx_1:a'])
      assert.deepEqual(readEndpoint(path), { kind: 'local', path });
    assert.deepEqual(readEndpoint('sbx_1:'), { kind: 'sandbox', sandboxId: 'sbx_1', path: '/workspace' });
    for (const sandboxId of ['@last', '2t6h', 'ab7c9d0e1f2g3h4j5k6'])
      assert.deepEqual(readEndpoint(`${sandboxId}:a`), { kind: 'sandbox', sandboxId, path: 'a' });
    for (const path of ['2t6:a', '2T6h:a', './2t6h:a', '@first:a'])
      assert.deepEqual(readEndpoint(path), { kind: 'local', path });
  });

  it('a side of a copy keeps its name inside a directory, and is its content with a dot', () => {
    const name = nameOf(readEndpoint('a/b/'));
    assert.equal(String(joinLocal('to/', name)), 'to/b');
    assert.equal(joinSandbox('to/', name), 'to/b');
    assert.equal(joinSandbox('/', name), '/b');
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

describe('a name that text cannot spell', () => {
  const name = Buffer.from([0x61, 0x20, 0xff, 0x2e, 0x78]);

  it('a name that text cannot spell is spelled by a URI in a sandbox, wherever it goes, and is its bytes here', () => {
    assert.deepEqual(nameOf(readEndpoint('sbx_1:file:///workspace/%61%20%ff.x')), name);
    assert.deepEqual(joinLocal('to', name), Buffer.concat([Buffer.from('to/'), name]));
    assert.equal(joinSandbox('/a b/', name), 'file:///a%20b/a%20%FF.x');
    assert.equal(joinSandbox('deep', name), 'file:///workspace/deep/a%20%FF.x');
    assert.equal(joinSandbox('file:///a%20b/', name), 'file:///a%20b/a%20%FF.x');
  });

  it('a name that text cannot spell does not lead out of the place that it is copied to', () => {
    const climbing = nameOf(readEndpoint('sbx_1:file:///workspace/..%2F..%2Fetc%2Fpasswd'));
    assert.equal(String(climbing), 'passwd');
  });

  it('a name that text cannot spell of text is text: a percent sign is one, and in a URI an escape', () => {
    assert.equal(joinSandbox('to', nameOf(readEndpoint('100%41'))), 'to/100%41');
    assert.equal(joinSandbox('file:///to', nameOf(readEndpoint('100%41'))), 'file:///to/100%2541');
  });
});

describe('a directory of this machine', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-copy-'));
    for (const name of ['from/sub', 'to']) mkdirSync(join(folder, name), { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('a directory of this machine is packed and unpacked', async () => {
    writeFileSync(join(folder, 'from/sub/program'), 'x', { mode: 0o755 });
    const { signal } = new AbortController();
    await unpackLocal(join(folder, 'to'), packLocal(join(folder, 'from')), { signal });
    assert.deepEqual(readdirSync(join(folder, 'to'), { recursive: true }).sort(), ['sub', 'sub/program']);
    assert.equal(statSync(join(folder, 'to/sub/program')).mode & 0o100, 0o100);
  });

  it('a directory of this machine that cannot be read whole fails, instead of ending early', async () => {
    const read = async () => {
      for await (const _ of packLocal(join(folder, 'nothing')));
    };
    await assert.rejects(read, { name: 'CliError', message: /nothing/ });
  });
});
