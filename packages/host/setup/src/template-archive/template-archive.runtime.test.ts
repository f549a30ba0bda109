/** Archives of templates, exported and imported as root, with the trees that they stand for. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { SMALL_RECIPE } from '../../testing/small-template.ts';
import { TwoCaches } from '../../testing/two-caches.ts';
import { findTemplate, versionFolder } from '../templates/cached-versions.ts';
import type { ImportOptions } from './import-templates.ts';

/** Prints a line for each entry of a folder. Times of directories and of links have no meaning in a sandbox. */
const LIST_TREE = `
import hashlib, os, stat, sys
first = {}
for folder, folders, files in os.walk(sys.argv[1]):
  for path in [folder] + [os.path.join(folder, name) for name in folders + files]:
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    row = [os.path.relpath(path, sys.argv[1]), oct(s.st_mode), s.st_uid, s.st_gid]
    if kind == stat.S_IFLNK: row.append(os.readlink(path))
    else: row.append([(name, os.getxattr(path, name)) for name in sorted(os.listxattr(path))])
    if kind == stat.S_IFREG:
      row += [s.st_size, int(s.st_mtime), s.st_nlink, hashlib.sha256(open(path, "rb").read()).hexdigest()]
      row.append(first.setdefault(s.st_ino, row[0]))
    print(ascii(row))`;

/** Returns all that a folder has, but for the times of its directories. */
function treeOf(path: string): string[] {
  return [...new Set(execFileSync('python3', ['-c', LIST_TREE, path], { encoding: 'utf8' }).trim().split('\n'))].sort();
}

describe('an archive of templates', { skip: needsRoot }, () => {
  let caches: TwoCaches;
  beforeEach(async () => {
    caches = await TwoCaches.make();
  });
  afterEach(() => caches[Symbol.dispose]());
  const statuses = async () => (await caches.read()).map(({ part, wasThere }) => [part.kind, wasThere]);

  it('an archive of templates gives another cache the same versions and guest files, with owners, modes, attributes and links', async () => {
    await caches.write();
    assert.deepEqual(await statuses(), [
      ['template', false],
      ['guest', false],
    ]);
    assert.deepEqual(await findTemplate(SMALL_RECIPE, caches.to), caches.version);
    const own = treeOf(versionFolder(caches.version, caches.from));
    assert.deepEqual(treeOf(versionFolder(caches.version, caches.to)), own);
    assert.ok(own.some((line) => line.includes('user.note')) && own.some((line) => line.includes('security.cap')));
    assert.deepEqual(treeOf(join(caches.to, 'guest', caches.guestDigest)), treeOf(caches.guestDir));
    assert.deepEqual(await statuses(), [
      ['template', true],
      ['guest', true],
    ]);
  });

  it('an archive of templates has the same bytes each time, and is the file that was there before until it is whole', async () => {
    await caches.write();
    const first = readFileSync(caches.archive);
    await caches.write();
    assert.ok(readFileSync(caches.archive).equals(first));
    await assert.rejects(caches.write(AbortSignal.abort(new Error('canceled'))));
    assert.ok(readFileSync(caches.archive).equals(first));
    assert.deepEqual(readdirSync(caches.folder).sort(), ['from', 'templates.tar']);
  });

  it('an archive of templates counts not at all if its import is killed, and imports after that', async () => {
    await caches.write();
    const program = `
      import { importTemplates } from ${JSON.stringify(new URL('./import-templates.ts', import.meta.url).href)};
      await importTemplates(${JSON.stringify(caches.archive)}, { cacheDir: ${JSON.stringify(caches.to)}, step: async (title, work) => {
        if (title === 'guest files') await new Promise((resolve) => setTimeout(resolve, 60_000));
        return work(() => undefined);
      } });`;
    const importing = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' });
    const ended = new Promise((resolve) => importing.once('exit', resolve));
    try {
      await eventually(() => caches.cached().some((name) => name.endsWith('rootfs/zz-same')), {
        because: 'the template is unpacked',
      });
    } finally {
      importing.kill('SIGKILL');
      await ended;
    }
    assert.equal(await findTemplate(SMALL_RECIPE, caches.to), undefined);
    assert.ok(!existsSync(join(caches.to, 'templates')) && !existsSync(join(caches.to, 'guest')));
    await caches.read();
    assert.deepEqual(await findTemplate(SMALL_RECIPE, caches.to), caches.version);
  });

  it('an archive of templates leaves nothing if its import is canceled', async () => {
    await caches.write();
    const controller = new AbortController();
    const step: ImportOptions['step'] = async (title, work) => {
      if (title === 'guest files') controller.abort(new Error('canceled'));
      return work(() => undefined);
    };
    await assert.rejects(caches.read({ signal: controller.signal, step }));
    assert.deepEqual(caches.cached(), []);
  });

  it('an archive of templates can be imported twice at once', async () => {
    await caches.write();
    await Promise.all([caches.read(), caches.read(), caches.read()]);
    assert.deepEqual(await findTemplate(SMALL_RECIPE, caches.to), caches.version);
    assert.deepEqual(
      treeOf(versionFolder(caches.version, caches.to)),
      treeOf(versionFolder(caches.version, caches.from)),
    );
    assert.deepEqual(readdirSync(join(caches.to, 'building')).sort(), ['import.log', 'small.lock']);
  });
});
