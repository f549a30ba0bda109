/** What cannot be read in a tree is left out of listings and archives, and never fails them. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import type { AgentFile } from '@cloche/protocol';
import { FileAgent } from '../../testing/file-agent.ts';

const skip = process.getuid?.() !== 0 && 'only root can create files of several users';
/** Deep enough that the path of its last directory cannot be named by a path of 4096 bytes. */
const LEVELS = 17;
const OTHER = 1001;

let agent: FileAgent;
before(async () => {
  agent = await FileAgent.start();
});
after(() => agent?.[Symbol.asyncDispose]());

async function list(path: string, query: Record<string, string> = {}) {
  const answer = await agent.call('GET', '', { path, depth: '30', limit: '100000', marksUnlisted: 'true', ...query });
  assert.equal(answer.status, 200, answer.bytes.toString());
  return answer.bytes
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as AgentFile);
}

/** Makes the directory `odd` in the workspace unreadable. */
const ODD: Record<string, (odd: string) => void> = {
  'a directory that only another user may open': (odd) => {
    chownSync(odd, OTHER, OTHER);
    chmodSync(odd, 0o700);
  },
  'a directory that may be entered but not read': (odd) => {
    chownSync(odd, OTHER, OTHER);
    chmodSync(odd, 0o711);
  },
  'a directory that may be read but not entered': (odd) => {
    chownSync(odd, OTHER, OTHER);
    chmodSync(odd, 0o744);
  },
  'a directory of the user without any rights': (odd) => chmodSync(odd, 0),
  'a directory whose entries have too long a path': (odd) => {
    const name = 'n'.repeat(255);
    const steps = Array.from({ length: LEVELS }, () => `mkdir ${name} && cd ${name}`).join(' && ');
    execFileSync('/bin/bash', ['-c', `cd "$0" && ${steps} && touch end`, odd], { uid: 1000, gid: 1000 });
  },
};

describe('a tree', { skip }, () => {
  for (const [what, change] of Object.entries(ODD)) {
    it(`with ${what} is listed, and the directory is marked`, async () => {
      const tree = `${agent.workspace}/tree`;
      rmSync(tree, { recursive: true, force: true });
      for (const name of ['before', 'odd', 'until']) mkdirSync(`${tree}/${name}`, { recursive: true });
      for (const name of ['before', 'odd', 'until']) writeFileSync(`${tree}/${name}/file`, 'content');
      execFileSync('chown', ['-R', '1000:1000', tree]);
      change(`${tree}/odd`);
      const entries = await list('tree');
      assert.ok(['before/file', 'until/file'].every((name) => entries.some(({ path }) => path === `${tree}/${name}`)));
      const marked = entries.filter(({ unlisted }) => unlisted);
      assert.equal(marked.length, 1);
      assert.ok(marked[0]?.path.startsWith(`${tree}/odd`));
      assert.ok(!(await list('tree', { marksUnlisted: 'false' })).some(({ unlisted }) => unlisted));
    });
  }

  it('a tree of processes that start and end meanwhile is listed', async () => {
    await using busy = churn('while :; do /bin/true; done');
    for (let round = 0; round < 2; round += 1) {
      const entries = await list('/proc', { depth: '3', user: 'root' });
      assert.ok(entries.some(({ path }) => path === `/proc/${busy.pid}/fd`));
    }
  });

  it('a tree whose directories vanish meanwhile is listed and packed', async () => {
    const path = `${agent.folder}/churned`;
    mkdirSync(path);
    chownSync(path, 1000, 1000);
    await using _ = churn(`cd ${path} && while :; do mkdir -p v/{1,2,3}/{1,2,3}; rm -rf v/2 v/3; done`);
    for (let round = 0; round < 10; round += 1) {
      await list(path);
      const archive = await agent.call('GET', '/archive', { path, format: 'tar', user: 'root' });
      assert.equal(archive.status, 200, archive.bytes.toString());
    }
  });

  it('a tree with links of processes that nobody may read is packed for root without them', async () => {
    // The kernel's own processes have no program.
    const { status, bytes } = await agent.call('GET', '/archive', { path: '/proc/2', format: 'tar', user: 'root' });
    assert.equal(status, 200, bytes.toString());
    assert.ok(
      (await list('/proc/2', { depth: '1', user: 'root' })).some(
        ({ name, target }) => name === 'exe' && target === undefined,
      ),
    );
  });
});

describe('a listing', { skip }, () => {
  const KINDS: Record<string, (path: string) => void> = {
    'a file': (path) => writeFileSync(path, ''),
    'a link to a file': (path) => symlinkSync('/etc/passwd', path),
    'a pipe': (path) => execFileSync('mkfifo', [path]),
    'a link to a device': (path) => symlinkSync('/dev/null', path),
    'a link to a link to a file': (path) => {
      symlinkSync('/etc/passwd', `${path}-1`);
      symlinkSync(`${path}-1`, path);
    },
  };
  for (const [what, make] of Object.entries(KINDS)) {
    it(`a listing of ${what} says that it is no directory`, async () => {
      const path = `${agent.workspace}/${what.replaceAll(' ', '-')}`;
      make(path);
      const { status, json } = await agent.call('GET', '', { path, depth: '1', limit: '10' });
      assert.deepEqual([status, json.error.code], [409, 'conflict']);
      assert.match(json.error.message, /is not a directory; get it as a file/);
      const below = await agent.call('GET', '', { path: `${path}/x`, depth: '1', limit: '10' });
      assert.match(below.json.error.message, /has a part that is not a directory/);
    });
  }
});

/** Runs a shell line until it is disposed of. */
function churn(line: string) {
  const child = spawn('/bin/bash', ['-c', line], { stdio: 'ignore', uid: 1000, gid: 1000 });
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}
