import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type AgentFiles, FileError, type FileSource, type FileTransfer } from '@cloche/runtime';
import { declareContentTests } from './agent-contents-suite.ts';
import { FilesSession, patience, refused, sourceOf } from './files-session.ts';

export interface AgentFilesSubject {
  /** Files of an instance whose workspace is `/workspace`. */
  readonly files: AgentFiles;
  close(): Promise<void>;
}

/** Declares the tests that every implementation of `AgentFiles` must pass, fake or real. */
export function describeAgentFiles(name: string, open: () => Promise<AgentFilesSubject>): void {
  describe(`the files of ${name}`, () => {
    let subject: AgentFilesSubject;
    let files: AgentFiles;
    const session = new FilesSession(() => files);
    const { put, read, content, names, move, copy, remove } = session;

    before(async () => {
      subject = await open();
      files = subject.files;
    });
    beforeEach(async () => {
      for (const path of await names('.', 1)) await files.as('root').remove(path, { recursive: true }, patience());
    });
    after(() => subject?.close());

    declareContentTests(session);

    it(`the files of ${name} are listed in order, as deep as is asked, and not beyond a limit`, async () => {
      for (const path of ['tree/a/x', 'tree/a.txt', 'tree/b']) await put(path);
      await files.makeDirectory('tree/empty', patience());
      const tree = (...paths: string[]) => paths.map((path) => `/workspace/tree/${path}`);
      assert.deepEqual(await names('tree', 1), tree('a', 'a.txt', 'b', 'empty'));
      assert.deepEqual(await names('tree', 2), tree('a', 'a/x', 'a.txt', 'b', 'empty'));
      const list = (path: string, limit: number) => Array.fromAsync(files.list(path, { depth: 2, limit }, patience()));
      assert.equal((await list('tree', 5)).length, 5);
      await refused('too_many', () => list('tree', 4));
      await refused('conflict', () => list('tree/b', 10));
      await refused('not_found', () => list('nothing', 10));
    });

    it('lie in directories, which are made with those above them, as often as one likes', async () => {
      for (const _ of [1, 2]) {
        const made = await files.makeDirectory('made/deep/er', patience());
        assert.deepEqual([made.path, made.type], ['/workspace/made/deep/er', 'directory']);
      }
      await put('leaf');
      await refused('conflict', () => files.makeDirectory('leaf', patience()));
      await put('made/deep/er/file');
      await remove('made/deep/er');
      assert.deepEqual(await names('made'), ['/workspace/made/deep']);
    });

    for (const verb of ['move', 'copy'] as const) {
      const act = verb === 'move' ? move : copy;

      it(`the files of ${name} are put elsewhere by a ${verb}, whole trees as well`, async () => {
        for (const path of ['tree/a', 'tree/sub/b']) await put(path);
        await files.makeDirectory('tree/empty', patience());
        const arrived = await act('tree', 'far/away');
        assert.deepEqual([arrived.path, arrived.type], ['/workspace/far/away', 'directory']);
        assert.deepEqual(
          await names('far/away'),
          ['a', 'empty', 'sub', 'sub/b'].map((path) => `/workspace/far/away/${path}`),
        );
        assert.equal(await content('far/away/sub/b'), 'tree/sub/b');
        if (verb === 'copy') assert.equal(await content('tree/sub/b'), 'tree/sub/b');
        else await refused('not_found', () => files.stat('tree', patience()));
      });

      it(`the files of ${name} are replaced by a ${verb} only when it may, and never by what they hold`, async () => {
        for (const path of ['one', 'two', 'outer/inner/file']) await put(path);
        await refused('conflict', () => act('one', 'two'));
        await refused('conflict', () => act('one', 'one'));
        assert.equal(await content('two'), 'two');
        await act('one', 'two', true);
        assert.equal(await content('two'), 'one');
        assert.equal((await act('two', 'two', true)).path, '/workspace/two');
        await refused('conflict', () => act('outer', 'outer/inner/new', true));
        await refused('conflict', () => act('outer/inner', 'outer', true));
        assert.equal(await content('outer/inner/file'), 'outer/inner/file');
        await refused('not_found', () => act('nothing', 'somewhere'));
      });
    }

    it(`the files of ${name} are deleted, and directories that are not empty only with \`recursive\``, async () => {
      await put('tree/sub/file');
      await refused('conflict', () => remove('tree', false));
      assert.equal((await remove('tree/sub/file', false)).name, 'file');
      assert.equal((await remove('tree/sub', false)).type, 'directory');
      await put('tree/other/file');
      await remove('tree');
      assert.deepEqual(await names('.'), []);
      for (const path of ['.', '/workspace', '/']) await refused('conflict', () => remove(path));
    });

    it(`the files of ${name} that are not there, or are none, are named so by every operation`, async () => {
      await put('leaf');
      await files.makeDirectory('folder', patience());
      const operations: ((path: string) => Promise<unknown>)[] = [
        (path) => read(path),
        (path) => files.stat(path, patience()),
        (path) => remove(path),
        (path) => files.archive(path, 'tar', patience()),
        (path) => copy(path, 'target'),
      ];
      for (const act of operations) {
        await refused('not_found', () => act('nothing/at/all'));
        await refused('conflict', () => act('leaf/below'));
        for (const path of ['', 'a\0b', 'n'.repeat(256)]) await refused('invalid_path', () => act(path));
      }
      await refused('conflict', () => read('folder'));
      await refused('conflict', () => put('folder', 'text'));
      await refused('conflict', () => put('leaf/below', 'text'));
      await refused('conflict', () => copy('folder', 'leaf/below'));
    });

    it(`the files of ${name} belong to the user that writes them, and keep their owner when root overwrites them`, async () => {
      const root = files.as('root');
      await put('mine');
      await root.write('mine', sourceOf('by root'), {}, patience());
      await root.write('its', sourceOf('by root'), { mode: '0600' }, patience());
      const owner = async (path: string) => (await files.stat(path, patience())).uid;
      assert.deepEqual([await owner('mine'), await owner('its')], [1000, 0]);
      // A user with write permission for a directory may replace files in it.
      await put('its');
      assert.deepEqual([await owner('its'), await content('its')], [1000, 'its']);
    });

    it(`the files of ${name} are closed to the user where the sandbox has it so, and open to root`, async () => {
      const root = files.as('root');
      await root.write('closed/secret', sourceOf('of root'), { mode: '0600' }, patience());
      await put('tree/mine');
      await root.write('tree/secret', sourceOf('of root'), { mode: '0600' }, patience());
      const denied: [string, string, (as: AgentFiles) => Promise<unknown>][] = [
        ['read', '/workspace/closed/secret', (as) => as.read('closed/secret', {}, patience())],
        ['write', '/workspace/closed/new', (as) => as.write('closed/new', sourceOf('x'), {}, patience())],
        ['copy from', '/workspace/closed/secret', (as) => as.copy(transfer('closed/secret', 'out'), patience())],
        ['copy to', '/workspace/closed/in', (as) => as.copy(transfer('tree/mine', 'closed/in'), patience())],
        ['move to', '/workspace/closed/in', (as) => as.move(transfer('tree/mine', 'closed/in'), patience())],
        ['make', '/workspace/closed/new', (as) => as.makeDirectory('closed/new', patience())],
        ['remove', '/workspace/closed/secret', (as) => as.remove('closed/secret', { recursive: false }, patience())],
        ['list', '/root', (as) => Array.fromAsync(as.list('/root', { depth: 1, limit: 10 }, patience()))],
        ['archive', '/workspace/tree/secret', (as) => as.archive('tree', 'tar', patience())],
        ['stat below', '/root/nothing', (as) => as.stat('/root/nothing', patience())],
      ];
      for (const [what, path, act] of denied) {
        await assert.rejects(act(files), (error) => {
          assert.ok(error instanceof FileError, what);
          assert.deepEqual([error.kind, error.details.path], ['permission_denied', path], what);
          return true;
        });
      }
      assert.equal(await text((await root.read('closed/secret', {}, patience())).body), 'of root');
      assert.ok((await buffer(await root.archive('tree', 'tar', patience()))).length > 0);
      await root.copy(transfer('closed/secret', 'closed/copy'), patience());
      assert.equal((await root.remove('closed', { recursive: true }, patience())).type, 'directory');
      await root.list('/root', { depth: 1, limit: 1000 }, patience());
    });

    it(`the files of ${name} are packed and unpacked elsewhere as the same tree`, async () => {
      for (const path of ['tree/a', 'tree/sub/b']) await put(path);
      for (const format of ['tar', 'tar.gz', 'zip'] as const) {
        const body = await buffer(await files.archive('tree', format, patience()));
        const { file, entries, sizeBytes } = await files.unarchive(`to/${format}`, sourceOf(body), patience());
        const size = 'tree/a'.length + 'tree/sub/b'.length;
        assert.deepEqual([file.path, entries, sizeBytes], [`/workspace/to/${format}`, 3, size]);
        const tree = ['a', 'sub', 'sub/b'].map((path) => `/workspace/to/${format}/${path}`);
        assert.deepEqual(await names(`to/${format}`), tree);
        assert.equal(await content(`to/${format}/sub/b`), 'tree/sub/b');
      }
      await refused('bad_archive', () => files.unarchive('odd', sourceOf('no archive'), patience()));
      await refused('not_found', () => files.stat('odd', patience()));
    });

    it(`the files of ${name} of the archive of a run are unpacked by its latest attempt alone`, async () => {
      await put('tree/file');
      const body = await buffer(await files.archive('tree', 'tar', patience()));
      const unpack = (attempt: number, open: FileSource['open']) =>
        files.unarchive('to', { open, attempt: { runId: 'wrn_1', attempt } }, patience());
      const [arriving, reached] = [new PassThrough(), Promise.withResolvers<void>()];
      arriving.write(body.subarray(0, 1));
      const slow = unpack(1, () => {
        reached.resolve();
        return arriving;
      });
      // The agent may close the connection, because the rest of the archive is still to come.
      const ended = assert.rejects(slow);
      await reached.promise;
      assert.equal((await unpack(2, sourceOf(body).open)).entries, 1);
      await ended;
      arriving.destroy();
      await refused('conflict', () => unpack(1, sourceOf(body).open));
      assert.deepEqual(await names('to'), ['/workspace/to/file']);
    });
  });
}

function transfer(from: string, to: string): FileTransfer {
  return { from, to, overwrite: false };
}
