/**
 * Calls each public method of E2B's Python clients, sync and async, and compares how the calls end with the ledger. With
 * `CLOCHE_WRITE_E2B_LEDGER=1`, writes the ledger and its table in docs/compatibility.md instead.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Ledger, type Methods, PYTHON_LEDGER_FILE, readLedger, writeLedger } from '../support/e2b-ledger.ts';
import { E2B_PYTHON, runE2bPython } from '../support/e2b-python.ts';
import { sharedService, type TestService } from '../support/service.ts';

const WRITES = process.env.CLOCHE_WRITE_E2B_LEDGER === '1';
const written = WRITES ? {} : readLedger(PYTHON_LEDGER_FILE);

let service: TestService;
const found: Record<string, Methods> = {};
before(async () => {
  service = await sharedService();
  for (const requirements of Object.values(E2B_PYTHON)) Object.assign(found, await ledgerOf(requirements));
});
after(() => service?.close());

it('the ledger names each public method of the clients for Python', () => {
  if (WRITES) {
    assert.deepEqual(unknownVerdicts(found), []);
    writeLedger(PYTHON_LEDGER_FILE, found);
    return;
  }
  const namesOf = (ledger: Ledger) => Object.entries(ledger).map(([title, methods]) => [title, Object.keys(methods)]);
  assert.deepEqual(namesOf(found), namesOf(written));
});

for (const [title, methods] of Object.entries(written)) {
  describe(title, () => {
    for (const [method, verdict] of Object.entries(methods)) {
      it(method, () => assert.equal(found[title]?.[method], verdict));
    }
  });
}

async function ledgerOf(requirements: string): Promise<Ledger> {
  const { code, stdout, stderr } = await runE2bPython('e2e/support/e2b_python_ledger.py', service, requirements);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

function unknownVerdicts(ledger: Ledger): string[] {
  const all = Object.entries(ledger).flatMap(([title, methods]) =>
    Object.entries(methods).map(([method, verdict]) => `${title} ${method} ${verdict}`),
  );
  return all.filter((line) => !/ (works|not yet)$/.test(line));
}
