/** Holds E2B's protocol to E2B's own Python clients, sync and async. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { E2B_PYTHON, runE2bPython } from '../support/e2b-python.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

for (const [age, requirements] of Object.entries(E2B_PYTHON)) {
  it(`E2B’s ${age} clients for Python, sync and async, use sandboxes, commands, files, watches, code and contexts`, async (t) => {
    const { code, stdout, stderr } = await runE2bPython('e2e/support/e2b_clients.py', service, requirements);
    const said = stdout + stderr;
    t.diagnostic(/^Ran \d+ tests.*$/m.exec(said)?.[0] ?? 'no test ran');
    assert.equal(code, 0, said);
    assert.match(said, /^OK$/m);
  });
}
