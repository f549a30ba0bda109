/** Holds an adapter to the test suite of its host, with real sandboxes. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { runAdapterTests } from '../support/adapter-tests.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

it('the adapter for deepagents passes the sandbox tests of LangChain', async () => {
  assert.match(await runAdapterTests('deepagents', service), /^\d+ passed, 7 xfailed(, \d+ warnings?)? in/m);
});
