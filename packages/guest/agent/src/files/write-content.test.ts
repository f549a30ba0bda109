import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

let agent: FileAgent;
const inside = (name: string) => join(agent.workspace, name);
const read = (path: string, headers = {}) => agent.call('GET', '/content', { path }, { headers });
const write = (path: string, body: string | Buffer, headers = {}, query = {}) =>
  agent.call('PUT', '/content', { path, ...query }, { headers, body });
const codeOf = ({ status, json }: Awaited<ReturnType<typeof read>>) => [status, json?.error?.code];

before(async () => {
  if (needsRoot) return;
  agent = await FileAgent.start();
});
after(() => agent?.[Symbol.asyncDispose]());

describe('writing a file', { skip: needsRoot }, () => {
  const leftovers = () => readdirSync(agent.workspace).filter((name) => name.startsWith('.cloche'));

  it('writing a file stores the bytes, with a length and in chunks', async () => {
    for (const size of [0, 1, 3_000_001]) {
      const bytes = randomBytes(size);
      for (const headers of [{ 'content-length': size }, { 'transfer-encoding': 'chunked' }]) {
        const answer = await write('stored', bytes, headers);
        assert.equal(answer.status, 200);
        assert.equal(answer.json.sizeBytes, size);
        assert.ok(readFileSync(inside('stored')).equals(bytes));
      }
    }
    assert.equal((await write('stored', 'x')).json.etag, (await read('stored')).headers.etag);
  });

  it('writing a file makes the folders above it, all of them the user’s', async () => {
    const answer = await write('a/b/c', 'x');
    assert.deepEqual([answer.json.path, answer.json.mode], [inside('a/b/c'), 0o644]);
    for (const path of ['a', 'a/b', 'a/b/c']) assert.equal(statSync(inside(path)).uid, agent.user.uid, path);
  });

  it('writing a file keeps the mode of the file that it replaces, or sets the one that is asked for', async () => {
    writeFileSync(inside('program'), 'old');
    chmodSync(inside('program'), 0o751);
    await write('program', 'new');
    assert.equal(statSync(inside('program')).mode & 0o7777, 0o751);
    await write('program', 'new', {}, { mode: '600' });
    assert.equal(statSync(inside('program')).mode & 0o7777, 0o600);
  });

  it('writing a file writes to where a link leads, and leaves other names of the old file alone', async () => {
    writeFileSync(inside('target'), 'old');
    linkSync(inside('target'), inside('other-name'));
    symlinkSync('target', inside('to-target'));
    await write('to-target', 'new');
    assert.ok(lstatSync(inside('to-target')).isSymbolicLink());
    assert.equal(readFileSync(inside('target'), 'utf8'), 'new');
    assert.equal(readFileSync(inside('other-name'), 'utf8'), 'old');
    symlinkSync('not-yet', inside('dangling'));
    await write('dangling', 'made');
    assert.equal(readFileSync(inside('not-yet'), 'utf8'), 'made');
  });

  it('writing a file heeds conditions before it asks for the body', async () => {
    writeFileSync(inside('guarded'), 'old');
    const etag = (await read('guarded')).headers.etag ?? '';
    const refused: [string, Record<string, string>][] = [
      ['guarded', { 'if-none-match': '*' }],
      ['guarded', { 'if-match': '"other"' }],
      ['absent', { 'if-match': '*' }],
      ['absent', { 'if-match': etag }],
    ];
    for (const [path, headers] of refused) {
      const asked = agent.open('PUT', '/content', { path }, { ...headers, expect: '100-continue' });
      let wanted = false;
      asked.once('continue', () => {
        wanted = true;
      });
      asked.flushHeaders();
      assert.deepEqual(codeOf(await agent.answerTo(asked)), [412, 'precondition_failed'], path);
      asked.destroy();
      assert.equal(wanted, false);
    }
    assert.equal(readFileSync(inside('guarded'), 'utf8'), 'old');
    assert.equal((await write('guarded', 'new', { 'if-match': etag })).status, 200);
    assert.equal((await write('created', 'new', { 'if-none-match': '*' })).status, 200);
    assert.deepEqual(leftovers(), []);
  });

  it('writing a file succeeds for one of many requests that create the same file', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => write('raced', String(index), { 'if-none-match': '*' })),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    assert.equal(answers.filter(({ status }) => status === 412).length, 19);
    assert.deepEqual(leftovers(), []);
  });

  it('writing a file refuses to take the place of a folder, a pipe or a device', async () => {
    mkdirSync(inside('place'));
    execFileSync('mkfifo', [inside('fifo')]);
    writeFileSync(inside('plain'), '');
    for (const path of ['place', 'fifo', '/dev/null', 'plain/below'])
      assert.deepEqual(codeOf(await write(path, 'x')), [409, 'conflict'], path);
  });

  it('writing a file leaves nothing of an upload that broke off: no file, no part of it, no folder', async () => {
    writeFileSync(inside('kept'), 'old');
    for (const path of ['kept', 'fresh/folder/file']) {
      const asked = agent.open('PUT', '/content', { path }, { 'content-length': 10_000_000 });
      asked.on('error', () => undefined);
      asked.write(randomBytes(2_000_000));
      await eventually(hasPart, { because: 'the upload has begun' });
      asked.destroy();
      await eventually(() => !hasPart(), { because: 'its part is deleted' });
    }
    assert.equal(readFileSync(inside('kept'), 'utf8'), 'old');
    await eventually(() => !existsSync(inside('fresh')), { because: 'the new folder is deleted' });
  });

  function hasPart(): boolean {
    return readdirSync(agent.workspace, { recursive: true }).some((name) => String(name).endsWith('.part'));
  }

  it('writing a file refuses at once what is announced to be larger than the disk', async () => {
    writeFileSync(inside('fits'), 'old');
    const asked = agent.open(
      'PUT',
      '/content',
      { path: 'fits' },
      { 'content-length': 2 ** 50, expect: '100-continue' },
    );
    asked.flushHeaders();
    assert.deepEqual(codeOf(await agent.answerTo(asked)), [507, 'disk_full']);
    asked.destroy();
    assert.equal(readFileSync(inside('fits'), 'utf8'), 'old');
  });
});
