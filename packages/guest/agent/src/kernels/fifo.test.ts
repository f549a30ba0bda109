import assert from 'node:assert/strict';
import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { createFifos } from './fifo.ts';

test('pipes are made without a program of the image', () => {
  const { PATH } = process.env;
  process.env.PATH = '/nowhere';
  try {
    const pipes = createFifos(2, 1000, 1000);
    for (const { readFd, writeFd } of pipes) {
      const stat = fstatSync(readFd);
      assert.deepEqual([stat.isFIFO(), stat.uid, stat.mode & 0o777], [true, 1000, 0o600]);
      writeSync(writeFd, 'through');
      const bytes = Buffer.alloc(16);
      assert.equal(bytes.toString('utf8', 0, readSync(readFd, bytes)), 'through');
      for (const fd of [readFd, writeFd]) closeSync(fd);
    }
  } finally {
    process.env.PATH = PATH;
  }
});
