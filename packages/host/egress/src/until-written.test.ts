import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { untilWritten } from './until-written.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-written-'));
after(() => rmSync(folder, { recursive: true }));

describe('a file that another process writes', () => {
  it('a file that another process writes is waited for, whatever else is written before', async () => {
    const file = join(folder, 'later.json');
    let isWritten = false;
    const written = untilWritten(file).then(() => {
      isWritten = true;
    });
    for (const name of ['other', 'later.json.new']) {
      writeFileSync(join(folder, name), '{}');
      await delay(20);
    }
    assert.equal(isWritten, false);
    renameSync(join(folder, 'later.json.new'), file);
    await written;
  });

  it('a file that another process writes is not waited for if it is there', async () => {
    writeFileSync(join(folder, 'there.json'), '{}');
    await untilWritten(join(folder, 'there.json'));
  });
});
