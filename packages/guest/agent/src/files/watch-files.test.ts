import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

let agent: FileAgent;
beforeEach(async () => {
  agent = await FileAgent.start();
});
afterEach(() => agent[Symbol.asyncDispose]());

const inside = (name: string) => join(agent.workspace, name);

/** Watches a folder. Events are read up to one of a given type and path, as `type path`. */
async function watch(recursive = true, path = '.') {
  const asked = agent.open('GET', '/watch', { path, recursive: String(recursive) });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  const lines = createInterface({ input: response })[Symbol.asyncIterator]();
  return {
    async until(last: string): Promise<string[]> {
      const seen: string[] = [];
      while (seen.at(-1) !== last) {
        const { done, value } = await lines.next();
        if (done) throw new Error(`ended after ${seen}`);
        const event = JSON.parse(value);
        seen.push(`${event.type} ${(event.path ?? '').replace(`${agent.workspace}/`, '')}`.trim());
      }
      return seen;
    },
    /** Reads events up to one of a given type and path, with all their fields. */
    async allUntil(last: string): Promise<Record<string, unknown>[]> {
      const seen: Record<string, unknown>[] = [];
      const short = (text?: string) => text?.replace(`${agent.workspace}/`, '');
      do {
        const { path, movedTo, ...event } = JSON.parse(String((await lines.next()).value));
        seen.push({ ...event, path: short(path), ...(movedTo && { movedTo: short(movedTo) }) });
      } while (`${seen.at(-1)?.type} ${seen.at(-1)?.path}` !== last);
      return seen;
    },
    close: () => response.destroy(),
  };
}

/** So many directories that it takes a while to look at them all. */
const MANY = 1500;

function makeMany(folder: string): void {
  for (let index = 0; index < MANY; index += 1) mkdirSync(inside(`${folder}/${index}`), { recursive: true });
}

/** Directories that this process watches, where the agent's server is too. */
function directoriesWatched(): number {
  const descriptors = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8');
    } catch {
      return '';
    }
  });
  return descriptors.join('').match(/^inotify wd/gm)?.length ?? 0;
}

describe('watching', { skip: needsRoot }, () => {
  it('watching tells what is created, changed and deleted', async () => {
    writeFileSync(inside('old'), '');
    const changes = await watch();
    writeFileSync(inside('new'), '');
    await changes.until('created new');
    writeFileSync(inside('old'), 'changed');
    await changes.until('modified old');
    rmSync(inside('old'));
    await changes.until('deleted old');
    renameSync(inside('new'), inside('newer'));
    assert.deepEqual((await changes.until('created newer')).sort(), ['created newer', 'deleted new']);
    changes.close();
  });

  it('watching goes below when asked to, into directories that are made meanwhile as well', async () => {
    mkdirSync(inside('there'));
    const [deep, flat] = [await watch(true), await watch(false)];
    writeFileSync(inside('there/file'), '');
    await deep.until('created there/file');
    mkdirSync(inside('fresh/er'), { recursive: true });
    writeFileSync(inside('fresh/er/file'), '');
    await deep.until('created fresh/er/file');
    assert.deepEqual(await flat.until('created fresh'), ['created fresh']);
    deep.close();
    flat.close();
  });

  it('watching follows no link, and shows nothing of an upload that is under way', async () => {
    mkdirSync(join(agent.folder, 'elsewhere'));
    symlinkSync(join(agent.folder, 'elsewhere'), inside('link'));
    lchownSync(inside('link'), agent.user.uid, agent.user.gid);
    const changes = await watch();
    writeFileSync(join(agent.folder, 'elsewhere/file'), '');
    await agent.call('PUT', '/content', { path: 'uploaded' }, { body: 'x'.repeat(1000) });
    assert.deepEqual(await changes.until('created uploaded'), ['created uploaded']);
    changes.close();
  });

  it('watching reports when it has missed changes', async () => {
    const changes = await watch();
    for (let index = 0; index < 3_000; index += 1) writeFileSync(inside(`file-${index}`), '');
    const seen = await changes.until('overflow');
    assert.ok(seen.length <= 1_001, `${seen.length}`);
    writeFileSync(inside('after'), '');
    await changes.until('created after');
    changes.close();
  });

  it('ends with what it watches', async () => {
    mkdirSync(inside('watched/sub'), { recursive: true });
    const changes = await watch(true, 'watched');
    rmSync(inside('watched'), { recursive: true });
    await changes.until('ended');
  });

  it('watching tells what changes while it still looks at the directories', async () => {
    makeMany('watched');
    const before = directoriesWatched();
    let count = 0;
    const writing = setInterval(() => writeFileSync(inside(`watched/file-${count++}`), ''), 5);
    const changes = await watch(true, 'watched').finally(() => clearInterval(writing));
    await eventually(() => directoriesWatched() > before + MANY, { because: 'all directories are watched' });
    writeFileSync(inside('watched/last'), '');
    await changes.until('created watched/last');
    changes.close();
  });

  it('ends with what it watches, even while it still looks at the directories', async () => {
    makeMany('watched');
    const before = directoriesWatched();
    const moving = setInterval(() => {
      if (directoriesWatched() < before + 10) return;
      clearInterval(moving);
      renameSync(inside('watched'), inside('elsewhere'));
    });
    const changes = await watch(true, 'watched').finally(() => clearInterval(moving));
    await changes.until('ended');
  });

  const created = (path: string) => ({ type: 'created', path });
  const deleted = (path: string, movedTo?: string) => ({ type: 'deleted', path, ...(movedTo && { movedTo }) });
  const modified = (path: string, attributesOnly?: true) => ({
    type: 'modified',
    ...(attributesOnly && { attributesOnly }),
    path,
  });
  const END = created('end');
  /** Operations in one go, on the file `old`, the folder `folder` with `inner`, and what they are told as. */
  const OPERATIONS: Readonly<Record<string, readonly [act: () => void, told: Record<string, unknown>[]]>> = {
    'a rename': [() => renameSync(inside('old'), inside('new')), [deleted('old', 'new'), created('new')]],
    'a rename over another file': [
      () => renameSync(inside('old'), inside('other')),
      [deleted('old', 'other'), created('other')],
    ],
    'a rename into a folder': [
      () => renameSync(inside('old'), inside('folder/new')),
      [deleted('old', 'folder/new'), created('folder/new')],
    ],
    'two renames': [
      () => {
        renameSync(inside('old'), inside('new'));
        renameSync(inside('other'), inside('old'));
      },
      [deleted('old', 'new'), created('new'), deleted('other', 'old'), created('old')],
    ],
    'a rename out of the folder': [() => renameSync(inside('old'), join(agent.folder, 'out')), [deleted('old')]],
    'a deletion': [() => rmSync(inside('old')), [deleted('old')]],
    'a deletion, and a new file': [
      () => {
        rmSync(inside('old'));
        writeFileSync(inside('new'), 'new');
      },
      [deleted('old'), created('new')],
    ],
    permissions: [() => chmodSync(inside('old'), 0o600), [modified('old', true)]],
    'the permissions of a folder': [() => chmodSync(inside('folder'), 0o700), [modified('folder', true)]],
    'the owner': [() => chownSync(inside('old'), 1001, 1001), [modified('old', true)]],
    content: [() => writeFileSync(inside('old'), 'longer'), [modified('old')]],
    'content and permissions': [
      () => {
        chmodSync(inside('old'), 0o600);
        writeFileSync(inside('old'), 'longer');
      },
      [modified('old')],
    ],
    'many new files': [
      () => {
        for (let index = 0; index < 50; index++) writeFileSync(inside(`new-${index}`), 'x');
      },
      Array.from({ length: 50 }, (_, index) => created(`new-${index}`)),
    ],
  };
  for (const [name, [act, told]] of Object.entries(OPERATIONS)) {
    it(`watching tells ${name} as what it is, and loses nothing`, async () => {
      mkdirSync(inside('folder'));
      for (const file of ['old', 'other', 'folder/inner']) writeFileSync(inside(file), file);
      const changes = await watch();
      act();
      writeFileSync(inside('end'), '');
      const sorted = (events: unknown[]) => events.map((event) => JSON.stringify(event)).sort();
      const seen = await changes.allUntil('created end');
      assert.deepEqual(sorted(seen), sorted([...told, END]));
      changes.close();
    });
  }

  it('watching loses neither the file that a name had first nor the one that it has then', async () => {
    const changes = await watch();
    writeFileSync(inside('first'), '1');
    await changes.allUntil('created first');
    renameSync(inside('first'), inside('second'));
    writeFileSync(inside('first'), 'again');
    const seen = await changes.allUntil('created first');
    assert.deepEqual(seen, [deleted('first', 'second'), created('second'), created('first')]);
    changes.close();
  });

  it('watching is of directories that exist', async () => {
    writeFileSync(inside('file'), '');
    assert.equal((await agent.call('GET', '/watch', { path: 'file', recursive: 'false' })).status, 409);
    assert.equal((await agent.call('GET', '/watch', { path: 'nothing', recursive: 'false' })).status, 404);
  });
});
