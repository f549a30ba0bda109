import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { reclaimGroup } from './reclaim-group.ts';

it('a group is emptied by another process, which writes the text to the file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-reclaim-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'memory.reclaim');
  assert.ok((await reclaimGroup({ file, text: '4096' }, AbortSignal.timeout(60_000))) >= 0);
  assert.equal(readFileSync(file, 'utf8'), '4096\n');
});
