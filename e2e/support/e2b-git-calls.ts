/** Calls each git method of E2B's JavaScript clients once. The remote repositories are folders in the sandbox. */
import assert from 'node:assert/strict';
import type * as e2b from 'e2b';
import type { E2bCalls, E2bSubject } from './e2b-subject.ts';

/** A repository of its own for each call, with one commit, whose remote is a folder. */
async function repository({ sandbox }: E2bSubject): Promise<string> {
  const path = `/tmp/${crypto.randomUUID()}`;
  await sandbox.git.init(`${path}.git`, { bare: true });
  await sandbox.git.init(path, { initialBranch: 'main' });
  await sandbox.git.configureUser('Ada', 'ada@example.com', { scope: 'local', path });
  await sandbox.files.write(`${path}/file`, 'first');
  await sandbox.git.add(path);
  await sandbox.git.commit(path, 'First');
  await sandbox.git.remoteAdd(path, 'origin', `file://${path}.git`);
  return path;
}

function inRepository(call: (git: e2b.Git, path: string, subject: E2bSubject) => unknown) {
  return async (subject: E2bSubject) => call(subject.sandbox.git, await repository(subject), subject);
}

export const GIT_CALLS: E2bCalls = {
  'git.init': inRepository(async (git, path) => assert.equal((await git.status(path)).isClean, true)),
  'git.add': inRepository(async (git, path, { sandbox }) => {
    await sandbox.files.write(`${path}/other`, 'x');
    await git.add(path, { files: ['other'] });
    assert.equal((await git.status(path)).hasStaged, true);
  }),
  'git.commit': inRepository(async (_git, path, { sandbox }) =>
    assert.match((await sandbox.commands.run(`git -C ${path} log --oneline`)).stdout, /First/),
  ),
  'git.status': inRepository(async (git, path) => assert.equal((await git.status(path)).currentBranch, 'main')),
  'git.branches': inRepository(async (git, path) => assert.deepEqual((await git.branches(path)).branches, ['main'])),
  'git.createBranch': inRepository(async (git, path) => {
    await git.createBranch(path, 'topic');
    assert.equal((await git.branches(path)).currentBranch, 'topic');
  }),
  'git.checkoutBranch': inRepository(async (git, path) => {
    await git.createBranch(path, 'topic');
    await git.checkoutBranch(path, 'main');
    assert.equal((await git.branches(path)).currentBranch, 'main');
  }),
  'git.deleteBranch': inRepository(async (git, path) => {
    await git.createBranch(path, 'topic');
    await git.checkoutBranch(path, 'main');
    await git.deleteBranch(path, 'topic');
    assert.deepEqual((await git.branches(path)).branches, ['main']);
  }),
  'git.remoteAdd': inRepository(async (git, path) => assert.ok(await git.remoteGet(path, 'origin'))),
  'git.remoteGet': inRepository(async (git, path) =>
    assert.equal(await git.remoteGet(path, 'origin'), `file://${path}.git`),
  ),
  'git.push': inRepository(async (git, path, { sandbox }) => {
    await git.push(path, { remote: 'origin', branch: 'main' });
    assert.match((await sandbox.commands.run(`git -C ${path}.git log main --oneline`)).stdout, /First/);
  }),
  'git.pull': inRepository(async (git, path) => {
    await git.push(path, { remote: 'origin', branch: 'main' });
    assert.equal((await git.pull(path, { remote: 'origin', branch: 'main' })).exitCode, 0);
  }),
  'git.clone': inRepository(async (git, path, { sandbox }) => {
    await git.push(path, { remote: 'origin', branch: 'main' });
    await git.clone(`file://${path}.git`, { path: `${path}-clone`, branch: 'main' });
    assert.equal(await sandbox.files.read(`${path}-clone/file`), 'first');
  }),
  'git.reset': inRepository(async (git, path, { sandbox }) => {
    await sandbox.files.write(`${path}/file`, 'second');
    await git.reset(path, { mode: 'hard' });
    assert.equal(await sandbox.files.read(`${path}/file`), 'first');
  }),
  'git.restore': inRepository(async (git, path, { sandbox }) => {
    await sandbox.files.write(`${path}/file`, 'second');
    await git.restore(path, { paths: ['file'] });
    assert.equal(await sandbox.files.read(`${path}/file`), 'first');
  }),
  'git.setConfig': inRepository(async (git, path) => {
    await git.setConfig('core.editor', 'true', { scope: 'local', path });
    assert.equal(await git.getConfig('core.editor', { scope: 'local', path }), 'true');
  }),
  'git.getConfig': inRepository(async (git, path) =>
    assert.equal(await git.getConfig('user.name', { scope: 'local', path }), 'Ada'),
  ),
  'git.configureUser': inRepository(async (git, path) =>
    assert.equal(await git.getConfig('user.email', { scope: 'local', path }), 'ada@example.com'),
  ),
  'git.dangerouslyAuthenticate': async ({ sandbox }) => {
    await sandbox.git.dangerouslyAuthenticate({ username: 'ada', password: 'secret', host: 'git.example.com' });
    assert.match((await sandbox.commands.run('cat ~/.git-credentials')).stdout, /git\.example\.com/);
  },
};
