/** The output of a workspace run up to its limit, from the command to a client that reads all of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { sharedService, type TestService } from '../support/service.ts';

/** Each line is a number of this many digits, so that the output has 66 MiB. */
const DIGITS = 15;
const FIRST = 10 ** (DIGITS - 1);
const LINES = (66 * 2 ** 20) / (DIGITS + 1);
/** One part of the output, by which less than the limit may be kept. */
const PART_BYTES = 2 ** 20;

let service: TestService;
const directory = mkdtempSync(join(tmpdir(), 'cloche-output-'));
before(async () => {
  service = await sharedService();
});
after(async () => {
  rmSync(directory, { recursive: true });
  await service?.close();
});

it('a workspace run keeps the last 64 MiB of its output, and says how much is missing', async () => {
  const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  const run = await cloche.workspaceRuns.run({ directory, command: `seq ${FIRST} ${FIRST + LINES - 1}` });
  assert.equal(run.info.status, 'succeeded');
  let text = '';
  const notes: string[] = [];
  for await (const event of run.events()) {
    if (event.type === 'stdout') text += event.data;
    if (event.type === 'system') notes.push(event.data);
  }
  assert.equal(notes.length, 1, JSON.stringify(notes));
  assert.ok(text.length <= LIMITS.workspaceRunOutputBytes, `${text.length} bytes`);
  assert.ok(text.length > LIMITS.workspaceRunOutputBytes - PART_BYTES, `${text.length} bytes`);
  const dropped = (DIGITS + 1) * LINES - text.length;
  assert.match(notes[0] ?? '', new RegExp(`\\b${dropped}\\b`));
  // All lines that are kept are there once and in order: each is one more than the one before.
  const lines = text.split('\n').slice(1, -1);
  assert.equal(Number(lines.at(-1)), FIRST + LINES - 1);
  const [first = ''] = lines;
  assert.ok(lines.every((line, index) => Number(line) === Number(first) + index));
});
