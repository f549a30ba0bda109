import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, beforeEach, test } from 'node:test';
import { receive } from './receive.ts';

const GONE = /went away/;

let folder: string;
let file: FileHandle;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-receive-'));
  file = await open(join(folder, 'file'), 'w');
});
afterEach(async () => {
  await file.close();
  rmSync(folder, { recursive: true });
});

test('all that comes is written, in its order, however it is cut', async () => {
  const chunks = [1, 70_000, 3_000_000, 0, 12].map((length, index) => Buffer.alloc(length, 97 + index));
  await receive(Readable.from(chunks.filter(({ length }) => length > 0)), file.fd);
  assert.ok(readFileSync(join(folder, 'file')).equals(Buffer.concat(chunks)));
});

test('nothing is a file too', async () => {
  await receive(Readable.from([]), file.fd);
  assert.equal(readFileSync(join(folder, 'file')).length, 0);
});

test('a sender that leaves in the middle is reported', async () => {
  const source = new PassThrough();
  const received = receive(source, file.fd);
  source.write('half');
  setImmediate(() => source.destroy());
  await assert.rejects(received, GONE);
});

test('a sender that left before the start is reported as well', async () => {
  for (const error of [undefined, new Error('reset')]) {
    const source = new PassThrough().on('error', () => undefined);
    source.destroy(error);
    await new Promise((resolve) => source.once('close', resolve));
    await assert.rejects(receive(source, file.fd), GONE);
  }
});
