import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { drop, json, startScriptedServer } from '../testing/index.ts';
import { scriptedSandbox } from '../testing/scripted-sandbox.ts';
import { fileBytes, packDirectory, saveFile } from './node.ts';

const file = { name: 'a', path: '/workspace/a', type: 'file', sizeBytes: 4, mode: '0644' };

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array, void> {
  for (const text of texts) yield new TextEncoder().encode(text);
}

describe('files of the disk', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-sdk-disk-'));
  });
  after(() => rm(folder, { recursive: true }));

  it('files of the disk are sent again from their first byte when an attempt fails', async () => {
    await writeFile(join(folder, 'data'), 'data');
    const { server, sandbox } = await scriptedSandbox([drop, json(200, { file })]);
    await using _ = server;
    await sandbox.files.write('a', fileBytes(join(folder, 'data')));
    assert.deepEqual(
      server.requests.slice(1).map(({ bytes }) => bytes.toString()),
      ['data', 'data'],
    );
  });

  it('appear when all bytes have arrived, in directories that are created', async () => {
    await saveFile(join(folder, 'new/deep/file'), chunks('one ', 'two'));
    assert.equal(await readFile(join(folder, 'new/deep/file'), 'utf8'), 'one two');
    await saveFile(join(folder, 'new/deep/file'), new Blob(['three']).stream());
    assert.equal(await readFile(join(folder, 'new/deep/file'), 'utf8'), 'three');
    assert.deepEqual(await readdir(join(folder, 'new/deep')), ['file']);
  });

  it('files of the disk leave nothing when the bytes break off, are aborted, or must not replace a file', async () => {
    const target = join(folder, 'kept/file');
    await saveFile(target, chunks('first'));
    async function* broken() {
      yield* chunks('half');
      throw new Error('broke off');
    }
    await assert.rejects(saveFile(target, broken()), /broke off/);
    await assert.rejects(saveFile(target, chunks('second'), { signal: AbortSignal.abort() }), { name: 'AbortError' });
    await assert.rejects(saveFile(target, chunks('second'), { replace: false }), { code: 'EEXIST' });
    assert.equal(await readFile(target, 'utf8'), 'first');
    assert.deepEqual(await readdir(join(folder, 'kept')), ['file']);
  });

  it('files of the disk are packed as an archive that can be sent again, without what .gitignore leaves out', async () => {
    const site = join(folder, 'site');
    await mkdir(site);
    await writeFile(join(site, '.gitignore'), 'secret\n');
    for (const name of ['page', 'secret']) await writeFile(join(site, name), name);
    await using archive = await packDirectory(site, { compress: false });
    const read = async () => Buffer.concat(await Array.fromAsync(archive.bytes())).toString('latin1');
    const text = await read();
    assert.equal(archive.format, 'tar');
    assert.deepEqual([text.includes('\0page\0'), text.includes('\0secret\0')], [true, false]);
    assert.equal((await read()) === text, true);
  });
});

describe('a platform without WebSocket', () => {
  it('a platform without WebSocket is told what terminals need, and uses the WebSocket that it passes', async () => {
    await using server = await startScriptedServer([]);
    const { Cloche } = await import('./index.ts');
    const opened: unknown[] = [];
    class Passed {
      constructor(url: string, options: object) {
        opened.push(url, options);
      }
    }
    const options = { url: server.url, apiKey: 'clk_test' };
    const request = { params: { sandboxId: 'sbx_1' as const } };
    new Cloche({ ...options, webSocket: Passed as never }).openSocket('openPty', request);
    const url = `${server.url.replace('http', 'ws')}/v1/sandboxes/sbx_1/pty`;
    assert.deepEqual(opened, [url, { headers: { authorization: 'Bearer clk_test' } }]);
    const { WebSocket } = globalThis;
    Reflect.deleteProperty(globalThis, 'WebSocket');
    try {
      assert.throws(() => new Cloche(options).openSocket('openPty', request), { code: 'invalid_options' });
    } finally {
      globalThis.WebSocket = WebSocket;
    }
  });
});
