import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

let agent: FileAgent;
beforeEach(async () => {
  agent = await FileAgent.start();
});
afterEach(() => agent[Symbol.asyncDispose]());

const inside = (name: string) => join(agent.workspace, name);
const put = (name: string, text = name) => {
  mkdirSync(join(inside(name), '..'), { recursive: true });
  writeFileSync(inside(name), text);
};
const list = async (query: Record<string, string> = {}) => {
  const answer = await agent.call('GET', '', { path: '.', depth: '1', limit: '50000', ...query });
  if (answer.status !== 200) return answer.json.error.code as string;
  const lines = answer.bytes.toString().split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line));
};
const namesOf = async (query?: Record<string, string>) => {
  const entries = await list(query);
  return typeof entries === 'string' ? entries : entries.map(({ path }) => path.replace(`${agent.workspace}/`, ''));
};
const post = (path: string, query: Record<string, string>) => agent.call('POST', path, query);
const remove = (path: string, recursive = false) => agent.call('DELETE', '', { path, recursive: String(recursive) });
const refusal = ({ status, json }: Awaited<ReturnType<typeof post>>) => [status, json?.error?.code];
const nothingLeft = () =>
  assert.deepEqual(
    readdirSync(agent.workspace, { recursive: true }).filter((name) => /\.part$/.test(String(name))),
    [],
  );

describe('listing', { skip: needsRoot }, () => {
  it('says of each entry what it is, in the order of the names’ bytes', async () => {
    put('file', 'four');
    chmodSync(inside('file'), 0o640);
    utimesSync(inside('file'), 1, 1.5);
    mkdirSync(inside('Folder'));
    symlinkSync('/etc/passwd', inside('link'));
    execFileSync('mkfifo', [inside('pipe')]);
    const entries = await list();
    assert.ok(typeof entries !== 'string');
    assert.deepEqual(
      entries.map(({ name, type }) => [name, type]),
      [
        ['Folder', 'directory'],
        ['file', 'file'],
        ['link', 'symlink'],
        ['pipe', 'other'],
      ],
    );
    const [, file, link] = entries;
    assert.deepEqual(
      [file.path, file.sizeBytes, file.mode, file.uid, file.modifiedMs],
      [inside('file'), 4, 0o640, agent.user.uid, 1500],
    );
    assert.equal(link.target, '/etc/passwd');
    assert.equal(link.etag, undefined);
  });

  it('listing goes as deep as it is asked to, a folder before what it holds, and follows no link', async () => {
    for (const name of ['a/b/c', 'a/a', 'b']) put(name);
    symlinkSync('.', inside('a/self'));
    assert.deepEqual(await namesOf({ depth: '1' }), ['a', 'b']);
    assert.deepEqual(await namesOf({ depth: '2' }), ['a', 'a/a', 'a/b', 'a/self', 'b']);
    assert.deepEqual(await namesOf({ depth: '9' }), ['a', 'a/a', 'a/b', 'a/b/c', 'a/self', 'b']);
  });

  it('spells names of any bytes so that they can be asked for again', async () => {
    const odd = Buffer.from([0x61, 0xff, 0x20, 0x0a]);
    writeFileSync(Buffer.concat([Buffer.from(`${agent.workspace}/`), odd]), 'odd');
    put('new\nline');
    put('名前');
    const entries = await list();
    assert.ok(typeof entries !== 'string');
    assert.deepEqual(
      entries.map(({ path }) => path),
      [`file://${agent.workspace}/a%FF%20%0A`, inside('new\nline'), inside('名前')],
    );
    assert.equal(entries[0].name, 'a\ufffd \n');
    for (const { path } of entries) assert.equal((await agent.call('GET', '/content', { path })).status, 200);
  });

  it('listing takes 10,000 files, and refuses more than the limit', async () => {
    for (let index = 0; index < 10_000; index += 1) writeFileSync(inside(`${index}`), '');
    assert.equal((await list())?.length, 10_000);
    assert.equal(await list({ limit: '9999' }), 'too_many');
  });

  it('listing is of folders alone', async () => {
    put('file');
    assert.equal(await list({ path: 'file' }), 'conflict');
    assert.equal(await list({ path: 'nothing' }), 'not_found');
  });
});

describe('describing', { skip: needsRoot }, () => {
  it('describing is of what is there itself, a link or a missing target', async () => {
    symlinkSync('nowhere', inside('dangling'));
    const { json } = await agent.call('GET', '/stat', { path: 'dangling' });
    assert.deepEqual([json.type, json.target], ['symlink', 'nowhere']);
    assert.deepEqual(refusal(await agent.call('GET', '/stat', { path: 'nowhere' })), [404, 'not_found']);
  });
});

describe('making a folder', { skip: needsRoot }, () => {
  it('making a folder makes those above it, all the user’s, and can be repeated', async () => {
    for (let again = 0; again < 2; again += 1) {
      const { status, json } = await post('/directories', { path: 'a/b/c' });
      assert.deepEqual([status, json.type, json.uid], [200, 'directory', agent.user.uid]);
    }
    assert.equal(statSync(inside('a')).uid, agent.user.uid);
  });

  it('making a folder takes the place of nothing', async () => {
    put('file');
    assert.deepEqual(refusal(await post('/directories', { path: 'file' })), [409, 'conflict']);
    assert.deepEqual(refusal(await post('/directories', { path: 'file/below' })), [409, 'conflict']);
  });
});

for (const verb of ['move', 'copy'] as const) {
  const act = (from: string, to: string, overwrite = false) =>
    post(`/${verb}`, { from, to, overwrite: String(overwrite) });

  describe(verb === 'move' ? 'moving' : 'copying', { skip: needsRoot }, () => {
    it('making a folder gives a file its new path, and makes the folders above it', async () => {
      put('from', 'text');
      chmodSync(inside('from'), 0o751);
      const { json } = await act('from', 'deep/er/to');
      assert.deepEqual([json.path, json.sizeBytes, json.mode], [inside('deep/er/to'), 4, 0o751]);
      assert.equal(readFileSync(inside('deep/er/to'), 'utf8'), 'text');
      assert.equal(existsSync(inside('from')), verb === 'copy');
    });

    it('making a folder takes a whole folder, its links as links', async () => {
      put('tree/a/file');
      symlinkSync('a/file', inside('tree/link'));
      chmodSync(inside('tree/a'), 0o700);
      await act('tree', 'other');
      assert.equal(readFileSync(inside('other/a/file'), 'utf8'), 'tree/a/file');
      assert.equal(readlinkSync(inside('other/link')), 'a/file');
      assert.equal(statSync(inside('other/a')).mode & 0o777, 0o700);
      assert.equal(existsSync(inside('tree')), verb === 'copy');
    });

    it('making a folder replaces an existing entry only with `overwrite`', async () => {
      const kinds = ['file', 'folder/inner', 'folder'];
      put('file', 'file');
      put('folder/inner', 'inner');
      put('other/thing', 'thing');
      put('plain', 'plain');
      for (const to of ['file', 'folder']) assert.deepEqual(refusal(await act('other', to)), [409, 'conflict'], to);
      assert.deepEqual(
        kinds.map((name) => existsSync(inside(name))),
        [true, true, true],
      );
      await act('plain', 'file', true);
      assert.equal(readFileSync(inside('file'), 'utf8'), 'plain');
      await act('other', 'folder', true);
      assert.deepEqual(readdirSync(inside('folder')), ['thing']);
      await act('file', 'folder', true);
      assert.equal(readFileSync(inside('folder'), 'utf8'), 'plain');
      nothingLeft();
    });

    it('making a folder puts nothing into itself, nor in the place of what holds it', async () => {
      put('outer/inner/file');
      symlinkSync('outer', inside('alias'));
      for (const to of ['outer/inner/new', 'outer/new', 'alias/new'])
        assert.deepEqual(refusal(await act('outer', to)), [409, 'conflict'], to);
      assert.deepEqual(refusal(await act('outer/inner', 'outer', true)), [409, 'conflict']);
      assert.equal((await act('outer', 'outer', true)).status, 200);
      assert.equal(readFileSync(inside('outer/inner/file'), 'utf8'), 'outer/inner/file');
      nothingLeft();
    });

    it('goes from one file system to another', async () => {
      const elsewhere = mkdtempSync('/dev/shm/cloche-files-');
      chownSync(elsewhere, agent.user.uid, agent.user.gid);
      try {
        put('tree/file');
        await act('tree', join(elsewhere, 'tree'));
        assert.equal(readFileSync(join(elsewhere, 'tree/file'), 'utf8'), 'tree/file');
        assert.equal(existsSync(inside('tree')), verb === 'copy');
      } finally {
        rmSync(elsewhere, { recursive: true });
      }
    });

    it('making a folder leaves everything as it was where it is refused', async () => {
      put('file');
      assert.deepEqual(refusal(await act('nothing', 'fresh/to')), [404, 'not_found']);
      assert.equal(existsSync(inside('fresh')), false);
      assert.deepEqual(refusal(await act('file', 'file/below')), [409, 'conflict']);
    });
  });
}

it('a copy is the user’s, and leaves nothing where a pipe cannot be copied', { skip: needsRoot }, async () => {
  put('tree/file');
  assert.equal((await post('/copy', { from: 'tree', to: 'mine', overwrite: 'false' })).json.uid, agent.user.uid);
  assert.equal(lstatSync(inside('mine/file')).uid, agent.user.uid);
  execFileSync('mkfifo', [inside('tree/pipe')]);
  assert.deepEqual(refusal(await post('/copy', { from: 'tree', to: 'copy', overwrite: 'false' })), [409, 'conflict']);
  assert.equal(existsSync(inside('copy')), false);
  nothingLeft();
});

describe('deleting', { skip: needsRoot }, () => {
  it('deleting removes files, links and empty folders, and other folders only with `recursive`', async () => {
    put('target/file');
    symlinkSync('target', inside('link'));
    assert.equal((await remove('link')).json.type, 'symlink');
    assert.deepEqual(refusal(await remove('target')), [409, 'conflict']);
    assert.equal((await remove('target/file')).status, 200);
    assert.equal((await remove('target')).status, 200);
    put('tree/a/b/c');
    writeFileSync(Buffer.concat([Buffer.from(inside('tree/')), Buffer.from([0xff])]), '');
    symlinkSync('/etc', inside('tree/etc'));
    assert.equal((await remove('tree', true)).status, 200);
    assert.deepEqual(readdirSync(agent.workspace), []);
    assert.ok(existsSync('/etc/passwd'));
  });

  it('deleting says what is not there, and keeps the workspace and the root', async () => {
    assert.deepEqual(refusal(await remove('nothing')), [404, 'not_found']);
    assert.deepEqual(refusal(await remove('.', true)), [409, 'conflict']);
    assert.deepEqual(refusal(await remove('/', true)), [409, 'conflict']);
  });
});
