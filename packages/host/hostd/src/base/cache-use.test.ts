import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { CacheUse } from './cache-use.ts';

const DAY = 86_400_000;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-use-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the use of a cache entry', () => {
  it('the use of a cache entry is recorded once a day for each entry', () => {
    let now = 10 * DAY;
    const use = new CacheUse(join(folder, 'used'), { warn: () => assert.fail() }, () => now);
    const notedAt = () => statSync(join(folder, 'used', 'guest-a')).mtimeMs / DAY;
    for (const [at, expected] of [
      [10, 10],
      [10.9, 10],
      [11, 11],
    ] as const) {
      now = at * DAY;
      use.note('guest-a');
      assert.equal(notedAt(), expected);
    }
    use.note('template-b');
    assert.deepEqual(readdirSync(join(folder, 'used')), ['guest-a', 'template-b']);
  });

  it('the use of a cache entry is logged once when it cannot be recorded, without an error', () => {
    writeFileSync(join(folder, 'used'), 'a file');
    let warnings = 0;
    const use = new CacheUse(join(folder, 'used'), { warn: () => void warnings++ });
    for (let time = 0; time < 3; time++) use.note('guest-a');
    assert.equal(warnings, 1);
  });
});
