import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { it } from 'node:test';
import { COMPATIBILITY_FILE } from '../e2e/support/e2b-ledger.ts';
import { readCellGroups, withDifferences } from '../e2e/support/notebook-cells.ts';

it('the differences from ipykernel are a table in docs/compatibility.md, which CLOCHE_WRITE_DIFFERENCES=1 writes', () => {
  const document = readFileSync(COMPATIBILITY_FILE, 'utf8');
  const wanted = withDifferences(document);
  if (process.env.CLOCHE_WRITE_DIFFERENCES === '1') writeFileSync(COMPATIBILITY_FILE, wanted);
  else assert.equal(document, wanted);
});

it('ipykernel and sandboxes run at least 300 cells', () => {
  assert.ok(readCellGroups().flatMap(({ cells }) => cells).length >= 300);
});
