import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { AgentLogEntry } from '@cloche/protocol';
import { CommandLog } from './command-log.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-log-test-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;

function openLog(limitBytes = 16 << 20): { log: CommandLog; files: string } {
  count += 1;
  const files = join(folder, String(count));
  return { log: new CommandLog(files, limitBytes), files };
}

function readAll(log: CommandLog, limit = 13): AgentLogEntry[] {
  const all: AgentLogEntry[] = [];
  for (;;) {
    const { entries, hasMore } = log.page(all.at(-1)?.seq ?? 0, limit, 100_000);
    all.push(...entries);
    if (!hasMore) return all;
  }
}

const textOf = (entries: AgentLogEntry[]) => entries.map(({ data }) => data).join('');

describe('the log of a command', () => {
  it('the log of a command gives back what was printed, however it was cut, with numbers that have no gap', () => {
    const text = 'a日é😀\n'.repeat(60_000);
    const bytes = Buffer.from(text);
    for (const step of [1, 7, 4093, 65_521, 65_536, 200_001]) {
      const { log } = openLog();
      for (let at = 0; at < Math.min(bytes.length, step * 22_000); at += step)
        log.push('stdout', bytes.subarray(at, at + step));
      log.end();
      const entries = readAll(log);
      assert.ok(text.startsWith(textOf(entries)), `in steps of ${step}`);
      assert.deepEqual(
        entries.map(({ seq }) => seq),
        entries.map((_, index) => index + 1),
      );
    }
  });

  it('the log of a command keeps the order of a few changes between the streams, and joins single bytes to both in turn', () => {
    const { log } = openLog();
    for (const stream of ['stdout', 'stderr', 'stdout'] as const) log.push(stream, Buffer.from('a'));
    assert.deepEqual(
      readAll(log).map(({ stream, data }) => [stream, data]),
      [
        ['stdout', 'a'],
        ['stderr', 'a'],
        ['stdout', 'a'],
      ],
    );
    const each = 30_000;
    for (let n = 0; n < each; n++) {
      log.push('stdout', Buffer.from('o'));
      log.push('stderr', Buffer.from('é'));
    }
    log.end();
    const flood = readAll(log).slice(3);
    assert.ok(flood.length < 10, `${flood.length} entries`);
    assert.equal(textOf(flood.filter(({ stream }) => stream === 'stdout')), 'o'.repeat(each));
    assert.equal(textOf(flood.filter(({ stream }) => stream === 'stderr')), 'é'.repeat(each));
  });

  it('the log of a command is on disk only when it is long, and in files that no other user can read', () => {
    const { log, files } = openLog();
    log.push('stdout', Buffer.alloc(50_000));
    log.end();
    assert.ok(!existsSync(files));
    const long = openLog();
    for (let n = 0; n < 40; n++) long.log.push('stdout', Buffer.alloc(50_000));
    assert.ok(readdirSync(long.files).length > 1);
    long.log.drop();
    assert.ok(!existsSync(long.files));
  });

  it('the log of a command drops the oldest beyond its bound and says how much, once', () => {
    const { log } = openLog(2 << 20);
    for (let n = 0; n < 200; n++) log.push(n % 2 ? 'stderr' : 'stdout', Buffer.from(`${n}\n`.repeat(10_000)));
    log.end();
    const entries = readAll(log);
    assert.deepEqual(entries.map(({ stream }) => stream).indexOf('system', 1), -1);
    assert.match(entries[0]?.data ?? '', /^\[cloche: \d+ bytes dropped/);
    assert.ok(textOf(entries).endsWith('199\n'));
    assert.ok(log.bytes <= (2 << 20) + (1 << 20) + (1 << 18), `${log.bytes}`);
    for (const [index, { seq }] of entries.entries()) assert.equal(seq, (entries[0]?.seq ?? 0) + index);
    // A reader that is already past the dropped entries gets no entry about them.
    assert.equal(log.page(entries[0]?.seq ?? 0, 1, 1).entries[0]?.stream !== 'system', true);
  });

  it('the log of a command keeps the latest in memory when the disk takes nothing', () => {
    const { log, files } = openLog();
    writeFileSync(files, 'a file where its folder should be');
    for (let n = 0; n < 100; n++) log.push('stdout', Buffer.from(`${n}\n`.repeat(2000)));
    log.settle();
    const entries = readAll(log);
    assert.equal(entries[0]?.stream, 'system');
    assert.ok(textOf(entries).endsWith('98\n99\n') || textOf(entries).endsWith('99\n99\n'));
    assert.ok(log.bytes < 300_000);
    // Once the disk accepts data again, so does the log.
    rmSync(files);
    mkdirSync(files);
    for (let n = 0; n < 100; n++) log.push('stdout', Buffer.from(`${n}\n`.repeat(2000)));
    assert.ok(readdirSync(files).length > 0);
    readAll(log);
  });

  it('survives that root of the sandbox changes its files', () => {
    const { log, files } = openLog();
    for (let n = 0; n < 100; n++) log.push('stdout', Buffer.from(`${n}\n`.repeat(20_000)));
    for (const file of readdirSync(files)) writeFileSync(join(files, file), Buffer.alloc(100, 255));
    assert.ok(textOf(readAll(log)).endsWith('99\n'));
  });
});
