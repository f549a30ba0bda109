import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFileSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { FileAgent } from '../../testing/file-agent.ts';

let agent: FileAgent;
const inside = (name: string) => join(agent.workspace, name);
const read = (path: string, headers = {}) => agent.call('GET', '/content', { path }, { headers });
const codeOf = ({ status, json }: Awaited<ReturnType<typeof read>>) => [status, json?.error?.code];

before(async () => {
  if (needsRoot) return;
  agent = await FileAgent.start();
});
after(() => agent?.[Symbol.asyncDispose]());

describe('reading a file', { skip: needsRoot }, () => {
  it('reading a file gives its bytes, small and large', async () => {
    for (const size of [0, 1, 200_000, 3_000_001]) {
      const bytes = randomBytes(size);
      writeFileSync(inside('bytes'), bytes);
      const answer = await read('bytes');
      assert.equal(answer.status, 200);
      assert.ok(answer.bytes.equals(bytes), `${size} bytes`);
      assert.equal(answer.headers['content-length'], String(size));
    }
  });

  it('reading a file gives one range of it', async () => {
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

  it('reading a file gives the whole file for several ranges, and for what is no range', async () => {
    writeFileSync(inside('whole'), '0123456789');
    for (const range of ['bytes=0-1,3-4', 'lines=1-2', 'bytes=5-2', 'bytes=-'])
      assert.equal((await read('whole', { range })).status, 200, range);
  });

  it('reading a file refuses a range that begins after its end, and says how long it is', async () => {
    writeFileSync(inside('short'), '0123456789');
    for (const range of ['bytes=10-', 'bytes=-0']) {
      const answer = await read('short', { range });
      assert.deepEqual(codeOf(answer), [416, 'range_not_satisfiable']);
      assert.equal(answer.headers['content-range'], 'bytes */10');
    }
  });

  it('reading a file has an ETag that changes with every change, however quick', async () => {
    const tags = new Set<string | undefined>();
    for (let version = 0; version < 50; version += 1) {
      writeFileSync(inside('tagged'), String(version).padStart(4));
      tags.add((await read('tagged')).headers.etag);
    }
    assert.equal(tags.size, 50);
  });

  it('reading a file heeds conditions', async () => {
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

  it('reading a file answers HEAD with the headers alone', async () => {
    writeFileSync(inside('headed'), randomBytes(1_000_000));
    const answer = await agent.call('HEAD', '/content', { path: 'headed' });
    assert.deepEqual([answer.status, answer.headers['content-length'], answer.bytes.length], [200, '1000000', 0]);
  });

  it('reading a file refuses what is no file, and never hangs on a pipe or a device', async () => {
    mkdirSync(inside('folder'));
    execFileSync('mkfifo', [inside('pipe')]);
    for (const path of ['folder', 'pipe', '/dev/zero', '/dev/tty', '.'])
      assert.deepEqual(codeOf(await read(path)), [409, 'conflict'], path);
  });

  it('reading a file names what is missing, and what is in the way', async () => {
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

  it('reading a file follows links before `..`, as the system does', async () => {
    mkdirSync(inside('deep/er'), { recursive: true });
    writeFileSync(inside('deep/up'), 'above the link’s target');
    symlinkSync('deep/er', inside('link'));
    assert.equal((await read('link/../up')).bytes.toString(), 'above the link’s target');
    assert.equal((await read('../workspace/deep/up')).status, 200);
  });

  it('reading a file reads names of any bytes by their URI', async () => {
    const path = Buffer.concat([Buffer.from(`${agent.workspace}/`), Buffer.from([0xff, 0x0a, 0x25])]);
    writeFileSync(path, 'odd');
    assert.equal((await read(`file://${agent.workspace}/%FF%0A%25`)).bytes.toString(), 'odd');
    writeFileSync(inside('new\nline'), 'line');
    assert.equal((await read('new\nline')).bytes.toString(), 'line');
    writeFileSync(inside('ü'.repeat(127)), 'long');
    assert.equal((await read('ü'.repeat(127))).bytes.toString(), 'long');
  });

  it('reading a file reads files of the system that do not say how long they are', async () => {
    const status = await read('/proc/self/status');
    assert.match(status.bytes.toString(), /^Name:/);
    assert.equal(status.headers['content-length'], String(status.bytes.length));
    assert.equal(status.headers.etag, undefined);
    const page = await read('/sys/kernel/mm/transparent_hugepage/enabled');
    assert.equal(page.headers['content-length'], String(page.bytes.length));
  });

  it('reading a file gives what a growing file had at first, and breaks off when it shrinks', async () => {
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

  it('reading a file reads the end of a sparse file of 5 GB', async () => {
    writeFileSync(inside('sparse'), '');
    truncateSync(inside('sparse'), 5 * 1024 ** 3);
    appendFileSync(inside('sparse'), 'end');
    const answer = await read('sparse', { range: 'bytes=-5' });
    assert.equal(answer.bytes.toString(), '\0\0end');
    assert.equal(answer.headers['content-range'], 'bytes 5368709118-5368709122/5368709123');
  });
});
