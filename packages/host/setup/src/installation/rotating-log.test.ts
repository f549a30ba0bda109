import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { RotatingLog } from './rotating-log.ts';

describe('RotatingLog', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-log-'));
  });
  after(() => rm(folder, { recursive: true }));

  it('RotatingLog keeps the newest and the half before it', async () => {
    const log = new RotatingLog(join(folder, 'a.log'), 10);
    for (const line of ['first....\n', 'second...\n', 'third....\n']) log.write(Buffer.from(line));
    log.close();
    assert.equal(await readFile(log.file, 'utf8'), 'third....\n');
    assert.equal(await readFile(`${log.file}.1`, 'utf8'), 'second...\n');
  });

  it('RotatingLog goes on in a file that is there, and remembers only its own lines', async () => {
    const before = new RotatingLog(join(folder, 'b.log'));
    before.write(Buffer.from('earlier\n'));
    before.close();
    const log = new RotatingLog(join(folder, 'b.log'));
    log.write(Buffer.from('now\n'));
    log.close();
    assert.equal(await readFile(log.file, 'utf8'), 'earlier\nnow\n');
    assert.deepEqual(log.recentLines(), ['now']);
  });

  it('RotatingLog loses lines on a full disk, and nothing else', () => {
    const log = new RotatingLog('/dev/full');
    log.write(Buffer.from('lost\n'));
    log.close();
    assert.deepEqual(log.recentLines(), ['lost']);
  });
});
