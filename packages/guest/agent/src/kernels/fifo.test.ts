import assert from 'node:assert/strict';
import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { createFifos } from './fifo.ts';

/** User of a context; another one than root can give a pipe to itself alone. */
const uid = process.getuid?.() || 1000;
const gid = process.getgid?.() || 1000;

test('pipes are made without a program of the image', () => {
  const { PATH } = process.env;
  process.env.PATH = '/nowhere';
  try {
    const pipes = createFifos(2, uid, gid);
    for (const { readFd, writeFd } of pipes) {
      const stat = fstatSync(readFd);
      assert.deepEqual([stat.isFIFO(), stat.uid, stat.mode & 0o777], [true, uid, 0o600]);
      writeSync(writeFd, 'through');
      const bytes = Buffer.alloc(16);
      assert.equal(bytes.toString('utf8', 0, readSync(readFd, bytes)), 'through');
      for (const fd of [readFd, writeFd]) closeSync(fd);
    }
  } finally {
    process.env.PATH = PATH;
  }
});
