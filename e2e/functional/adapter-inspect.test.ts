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

it('the adapter for Inspect passes the self check of Inspect', async () => {
  assert.match(await runAdapterTests('inspect', service), /^\d+ passed, 1 xfailed(, \d+ warnings?)? in/m);
});
