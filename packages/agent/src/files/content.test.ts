import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { FileAgent } from '../testing/file-agent.ts';

let agent: FileAgent;
const inside = (name: string) => join(agent.workspace, name);
const read = (path: string, headers = {}) => agent.call('GET', '/content', { path }, { headers });
const write = (path: string, body: string | Buffer, headers = {}, query = {}) =>
  agent.call('PUT', '/content', { path, ...query }, { headers, body });
const codeOf = ({ status, json }: Awaited<ReturnType<typeof read>>) => [status, json?.error?.code];

before(async () => {
  agent = await FileAgent.start();
});
after(() => agent[Symbol.asyncDispose]());

describe('reading a file', () => {
  it('gives its bytes, small and large', async () => {
    for (const size of [0, 1, 200_000, 3_000_001]) {
      const bytes = randomBytes(size);
      writeFileSync(inside('bytes'), bytes);
      const answer = await read('bytes');
      assert.equal(answer.status, 200);
      assert.ok(answer.bytes.equals(bytes), `${size} bytes`);
      assert.equal(answer.headers['content-length'], String(size));
    }
  });

  it('gives one range of it', async () => {
    for (const size of [1_000, 2_000_000]) {
      const bytes = randomBytes(size);
      writeFileSync(inside('ranged'), bytes);
      const ranges: [string, number, number][] = [
        ['bytes=0-0', 0, 1],
        ['bytes=10-', 10, size],
        ['bytes=-5', size - 5, size],
        [`bytes=${size - 2}-${size + 100}`, size - 2, size],
        [`bytes=-${size + 1}`, 0, size],
      ];
      for (const [range, from, to] of ranges) {
        const answer = await read('ranged', { range });
        assert.equal(answer.status, 206, range);
        assert.ok(answer.bytes.equals(bytes.subarray(from, to)), range);
        assert.equal(answer.headers['content-range'], `bytes ${from}-${to - 1}/${size}`);
      }
    }
  });

  it('gives the whole file for several ranges, and for what is no range', async () => {
    writeFileSync(inside('whole'), '0123456789');
    for (const range of ['bytes=0-1,3-4', 'lines=1-2', 'bytes=5-2', 'bytes=-'])
      assert.equal((await read('whole', { range })).status, 200, range);
  });

  it('refuses a range that begins after its end, and says how long it is', async () => {
    writeFileSync(inside('short'), '0123456789');
    for (const range of ['bytes=10-', 'bytes=-0']) {
      const answer = await read('short', { range });
      assert.deepEqual(codeOf(answer), [416, 'range_not_satisfiable']);
      assert.equal(answer.headers['content-range'], 'bytes */10');
    }
  });

  it('has an ETag that changes with every change, however quick', async () => {
    const tags = new Set<string | undefined>();
    for (let version = 0; version < 50; version += 1) {
      writeFileSync(inside('tagged'), String(version).padStart(4));
      tags.add((await read('tagged')).headers.etag);
    }
    assert.equal(tags.size, 50);
  });

  it('heeds conditions', async () => {
    writeFileSync(inside('conditional'), 'x');
    const etag = (await read('conditional')).headers.etag ?? '';
    assert.equal((await read('conditional', { 'if-none-match': `"a", ${etag}` })).status, 304);
    assert.equal((await read('conditional', { 'if-none-match': `W/${etag}` })).status, 304);
    assert.equal((await read('conditional', { 'if-none-match': '"a"' })).status, 200);
    assert.equal((await read('conditional', { 'if-match': etag })).status, 200);
    assert.deepEqual(codeOf(await read('conditional', { 'if-match': '"a"' })), [412, 'precondition_failed']);
    assert.equal((await read('conditional', { range: 'bytes=0-', 'if-range': etag })).status, 206);
    assert.equal((await read('conditional', { range: 'bytes=0-', 'if-range': '"a"' })).status, 200);
  });

  it('answers HEAD with the headers alone', async () => {
    writeFileSync(inside('headed'), randomBytes(1_000_000));
    const answer = await agent.call('HEAD', '/content', { path: 'headed' });
    assert.deepEqual([answer.status, answer.headers['content-length'], answer.bytes.length], [200, '1000000', 0]);
  });

  it('refuses what is no file, and never hangs on a pipe or a device', async () => {
    mkdirSync(inside('folder'));
    execFileSync('mkfifo', [inside('pipe')]);
    for (const path of ['folder', 'pipe', '/dev/zero', '/dev/tty', '.'])
      assert.deepEqual(codeOf(await read(path)), [409, 'conflict'], path);
  });

  it('names what is missing, and what is in the way', async () => {
    writeFileSync(inside('leaf'), '');
    symlinkSync('loop-b', inside('loop-a'));
    symlinkSync('loop-a', inside('loop-b'));
    assert.deepEqual(codeOf(await read('nowhere/at/all')), [404, 'not_found']);
    assert.deepEqual(codeOf(await read('leaf/below')), [409, 'conflict']);
    assert.deepEqual(codeOf(await read('loop-a')), [409, 'conflict']);
    assert.deepEqual(codeOf(await read('n'.repeat(256))), [400, 'invalid_path']);
    assert.deepEqual(codeOf(await read('n/'.repeat(3000))), [400, 'invalid_path']);
    assert.deepEqual(codeOf(await read('')), [400, 'invalid_path']);
    assert.deepEqual(codeOf(await read('file:///a%00b')), [400, 'invalid_path']);
    assert.deepEqual(codeOf(await read('file:///a%zz')), [400, 'invalid_path']);
  });

  it('follows links before `..`, as the system does', async () => {
    mkdirSync(inside('deep/er'), { recursive: true });
    writeFileSync(inside('deep/up'), 'above the link’s target');
    symlinkSync('deep/er', inside('link'));
    assert.equal((await read('link/../up')).bytes.toString(), 'above the link’s target');
    assert.equal((await read('../workspace/deep/up')).status, 200);
  });

  it('reads names of any bytes by their URI', async () => {
    const path = Buffer.concat([Buffer.from(`${agent.workspace}/`), Buffer.from([0xff, 0x0a, 0x25])]);
    writeFileSync(path, 'odd');
    assert.equal((await read(`file://${agent.workspace}/%FF%0A%25`)).bytes.toString(), 'odd');
    writeFileSync(inside('new\nline'), 'line');
    assert.equal((await read('new\nline')).bytes.toString(), 'line');
    writeFileSync(inside('ü'.repeat(127)), 'long');
    assert.equal((await read('ü'.repeat(127))).bytes.toString(), 'long');
  });

  it('reads files of the system that do not say how long they are', async () => {
    const status = await read('/proc/self/status');
    assert.match(status.bytes.toString(), /^Name:/);
    assert.equal(status.headers['content-length'], String(status.bytes.length));
    assert.equal(status.headers.etag, undefined);
    const page = await read('/sys/kernel/mm/transparent_hugepage/enabled');
    assert.equal(page.headers['content-length'], String(page.bytes.length));
  });

  it('gives what a growing file had at first, and breaks off when it shrinks', async () => {
    for (const [change, isWhole] of [
      [() => appendFileSync(inside('changing'), 'more'), true],
      [() => truncateSync(inside('changing'), 10), false],
    ] as const) {
      const bytes = randomBytes(8_000_000);
      writeFileSync(inside('changing'), bytes);
      const asked = agent.open('GET', '/content', { path: 'changing' });
      asked.end();
      const response = await new Promise<import('node:http').IncomingMessage>((resolve) =>
        asked.once('response', resolve),
      );
      change();
      const chunks: Buffer[] = [];
      const reading = (async () => {
        for await (const chunk of response) chunks.push(chunk);
      })();
      if (isWhole) {
        await reading;
        assert.ok(Buffer.concat(chunks).equals(bytes));
      } else await assert.rejects(reading);
    }
  });

  it('reads the end of a sparse file of 5 GB', async () => {
    writeFileSync(inside('sparse'), '');
    truncateSync(inside('sparse'), 5 * 1024 ** 3);
    appendFileSync(inside('sparse'), 'end');
    const answer = await read('sparse', { range: 'bytes=-5' });
    assert.equal(answer.bytes.toString(), '\0\0end');
    assert.equal(answer.headers['content-range'], 'bytes 5368709118-5368709122/5368709123');
  });
});

describe('writing a file', () => {
  const leftovers = () => readdirSync(agent.workspace).filter((name) => name.startsWith('.cloche'));

  it('stores the bytes, with a length and in chunks', async () => {
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

  it('makes the folders above it, all of them the user’s', async () => {
    const answer = await write('a/b/c', 'x');
    assert.deepEqual([answer.json.path, answer.json.mode], [inside('a/b/c'), 0o644]);
    for (const path of ['a', 'a/b', 'a/b/c']) assert.equal(statSync(inside(path)).uid, agent.user.uid, path);
  });

  it('leaves to whoever owns a folder that the user cannot write to', async () => {
    mkdirSync(join(agent.folder, 'system'), { mode: 0o755 });
    await write(join(agent.folder, 'system/file'), 'x');
    assert.equal(statSync(join(agent.folder, 'system/file')).uid, 0);
    mkdirSync(join(agent.folder, 'shared'));
    chmodSync(join(agent.folder, 'shared'), 0o1777);
    await write(join(agent.folder, 'shared/file'), 'x');
    assert.equal(statSync(join(agent.folder, 'shared/file')).uid, agent.user.uid);
  });

  it('keeps mode and owner of the file that it replaces, or sets the mode that is asked for', async () => {
    writeFileSync(inside('program'), 'old', { mode: 0o751 });
    chmodSync(inside('program'), 0o751);
    await write('program', 'new');
    assert.deepEqual([statSync(inside('program')).mode & 0o7777, statSync(inside('program')).uid], [0o751, 0]);
    await write('program', 'new', {}, { mode: '600' });
    assert.equal(statSync(inside('program')).mode & 0o7777, 0o600);
  });

  it('writes to where a link leads, and leaves other names of the old file alone', async () => {
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

  it('heeds conditions before it asks for the body', async () => {
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

  it('lets one of many that create the same file win', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => write('raced', String(index), { 'if-none-match': '*' })),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 1);
    assert.equal(answers.filter(({ status }) => status === 412).length, 19);
    assert.deepEqual(leftovers(), []);
  });

  it('refuses to take the place of a folder, a pipe or a device', async () => {
    mkdirSync(inside('place'));
    execFileSync('mkfifo', [inside('fifo')]);
    writeFileSync(inside('plain'), '');
    for (const path of ['place', 'fifo', '/dev/null', 'plain/below'])
      assert.deepEqual(codeOf(await write(path, 'x')), [409, 'conflict'], path);
  });

  it('leaves nothing of an upload that broke off: no file, no part of it, no folder', async () => {
    writeFileSync(inside('kept'), 'old');
    for (const path of ['kept', 'fresh/folder/file']) {
      const asked = agent.open('PUT', '/content', { path }, { 'content-length': 10_000_000 });
      asked.on('error', () => undefined);
      asked.write(randomBytes(2_000_000));
      while (!hasPart()) await new Promise((resolve) => setImmediate(resolve));
      asked.destroy();
      while (hasPart()) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(readFileSync(inside('kept'), 'utf8'), 'old');
    while (existsSync(inside('fresh'))) await new Promise((resolve) => setImmediate(resolve));
  });

  function hasPart(): boolean {
    return readdirSync(agent.workspace, { recursive: true }).some((name) => String(name).endsWith('.part'));
  }

  it('refuses at once what is announced to be larger than the disk', async () => {
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
