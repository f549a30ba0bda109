import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CliError } from '../cli-error.ts';
import { saveFile } from './save-file.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-save-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

async function* broken(chunks: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
  throw new TypeError('terminated');
}

it('a saved file leaves nothing of a download that breaks off, however soon', async () => {
  const { signal } = new AbortController();
  for (const chunks of [[], ['some'], ['some', 'more']]) {
    const saved = saveFile(join(folder, 'file'), broken(chunks), { replace: true, signal });
    await assert.rejects(saved, CliError);
  }
  // A file that was still being opened would appear a moment later.
  await delay(50);
  assert.deepEqual(readdirSync(folder), []);
});

it('a saved file leaves nothing when it is canceled, before it begins or after', async () => {
  for (const delayMs of [undefined, 0, 5]) {
    const stop = new AbortController();
    if (delayMs === undefined) stop.abort(new Error('stop'));
    else setTimeout(() => stop.abort(new Error('stop')), delayMs);
    const endless = (async function* () {
      for (;;) {
        yield Buffer.from('x');
        await delay(1);
      }
    })();
    const saved = saveFile(join(folder, 'file'), endless, { replace: true, signal: stop.signal });
    await assert.rejects(saved, /stop/);
  }
  // A file that was still being opened would appear a moment later.
  await delay(50);
  assert.deepEqual(readdirSync(folder), []);
});

it('a saved file writes all that comes', async () => {
  const { signal } = new AbortController();
  const chunks = (async function* () {
    yield Buffer.from('one ');
    yield Buffer.from('two');
  })();
  await saveFile(join(folder, 'new/file'), chunks, { replace: false, signal });
  assert.equal(readFileSync(join(folder, 'new/file'), 'utf8'), 'one two');
  assert.deepEqual(readdirSync(join(folder, 'new')), ['file']);
});
