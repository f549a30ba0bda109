import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { COMPATIBILITY_FILE, installedClient, readLedger, withTable } from '../e2e/support/e2b-ledger.ts';

describe('the ledger of E2B’s clients', () => {
  it('names each public method of the clients that are installed', () => {
    const clients = ['e2b', 'e2b-older', '@e2b/code-interpreter'].map(installedClient);
    const named = Object.entries(readLedger()).map(([title, methods]) => [title, Object.keys(methods).sort()]);
    assert.deepEqual(
      named,
      clients.map(({ title, methods }) => [title, methods]),
    );
  });

  it('is the table in docs/compatibility.md', () => {
    const document = readFileSync(COMPATIBILITY_FILE, 'utf8');
    assert.equal(document, withTable(document, readLedger()));
  });
});
