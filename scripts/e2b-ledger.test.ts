import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { COMPATIBILITY_FILE, installedClient, readLedger, withTables } from '../e2e/support/e2b-ledger.ts';

describe('the ledger of E2B’s clients', () => {
  it('the ledger of E2B’s clients names each public method of the clients that are installed', () => {
    const clients = ['e2b', 'e2b-older', '@e2b/code-interpreter', 'e2b-interpreter-older'].map(installedClient);
    const named = Object.entries(readLedger()).map(([title, methods]) => [title, Object.keys(methods).sort()]);
    assert.deepEqual(
      named,
      clients.map(({ title, methods }) => [title, methods]),
    );
  });

  it('the ledger of E2B’s clients is, with the one of the clients for Python, the tables in docs/compatibility.md', () => {
    const document = readFileSync(COMPATIBILITY_FILE, 'utf8');
    assert.equal(document, withTables(document));
  });
});
