/**
 * Calls each public method of E2B's JavaScript clients once and compares how the calls end with the ledger. With
 * `CLOCHE_WRITE_E2B_LEDGER=1`, writes the ledger and its table in docs/compatibility.md instead.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import * as interpreter from '@e2b/code-interpreter';
import * as newest from 'e2b';
import * as olderInterpreter from 'e2b-interpreter-older';
import * as older from 'e2b-older';
import { E2B_CALLS, INTERPRETER_CALLS } from '../support/e2b-calls.ts';
import {
  installedClient,
  LEDGER_FILE,
  LOCAL,
  type Methods,
  readLedger,
  type Verdict,
  writeLedger,
} from '../support/e2b-ledger.ts';
import { e2bOptions } from '../support/e2b-options.ts';
import type { E2bSubject } from '../support/e2b-subject.ts';
import { sharedService, type TestService } from '../support/service.ts';

const WRITES = process.env.CLOCHE_WRITE_E2B_LEDGER === '1';
const CLIENTS = [
  { name: 'e2b', client: newest, calls: E2B_CALLS },
  { name: 'e2b-older', client: older as unknown as typeof newest, calls: E2B_CALLS },
  { name: '@e2b/code-interpreter', client: interpreter as unknown as typeof newest, calls: INTERPRETER_CALLS },
  {
    name: 'e2b-interpreter-older',
    client: olderInterpreter as unknown as typeof newest,
    calls: INTERPRETER_CALLS,
  },
] as const;

const found: Record<string, Methods> = {};
let service: TestService;
before(async () => {
  service = await sharedService();
});
after(async () => {
  await service?.close();
  if (WRITES) writeLedger(LEDGER_FILE, found);
});

for (const { name, client, calls } of CLIENTS) {
  const { title, methods } = installedClient(name);
  describe(title, () => {
    const verdicts: Record<string, Verdict> = {};
    let subject: E2bSubject;
    before(async () => {
      const options = e2bOptions(service);
      const sandbox = await client.Sandbox.create({ ...options, timeoutMs: 300_000 });
      subject = { client, options, sandbox, name };
    });
    after(async () => {
      await subject?.sandbox.kill();
      found[title] = verdicts;
    });

    it(`${title} has a call for each public method`, () => {
      assert.deepEqual(
        methods.filter((method) => !(method in LOCAL) && !(method in calls)),
        [],
      );
    });
    for (const method of methods) {
      it(method, async () => {
        verdicts[method] = method in LOCAL ? 'not yet' : await verdictOf(calls[method], subject);
        if (!WRITES) assert.equal(verdicts[method], readLedger()[title]?.[method]);
      });
    }
  });
}

/** @throws what the call throws, unless it is the refusal of a feature that Cloche does not have. */
async function verdictOf(call: ((subject: E2bSubject) => unknown) | undefined, subject: E2bSubject): Promise<Verdict> {
  try {
    await call?.(subject);
    return 'works';
  } catch (error) {
    if (/ yet\b/.test((error as Error).message)) return 'not yet';
    throw error;
  }
}
