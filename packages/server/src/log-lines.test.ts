import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { LogLines } from './log-lines.ts';

describe('log lines', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-log-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  function open(name: string) {
    const file = join(folder, name);
    const lines = new LogLines(file);
    const written = () => [...readFileSync(file, 'utf8').matchAll(/"msg":"(\w+)"/g)].map(([, message]) => message);
    return { log: pino({}, lines), lines, written };
  }

  it('that tell of nothing wrong are written soon', async () => {
    const { log, written } = open('soon');
    log.info('one');
    log.info('two');
    assert.deepEqual(written(), []);
    const deadline = performance.now() + 10_000;
    while (written().length === 0 && performance.now() < deadline) await sleep(5);
    assert.deepEqual(written(), ['one', 'two']);
  });

  it('that warn are written at once, after all before them', () => {
    const { log, written } = open('now');
    log.info('before');
    log.warn('warning');
    assert.deepEqual(written(), ['before', 'warning']);
  });

  it('are all written when flushed', () => {
    const { log, lines, written } = open('flushed');
    log.info('last');
    lines.flushSync();
    assert.deepEqual(written(), ['last']);
  });
});
