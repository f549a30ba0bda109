import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { after, before, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
});
after(() => tenants?.close());

/** A server of its own, because the limit counts all requests of an address. */
it('wrong signatures are refused for a while after some, and those that were right go on to work', async () => {
  const { server, keys } = tenants;
  const created = await fetch(`${server.url}/e2b/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': keys.whole, 'content-type': 'application/json' },
    body: JSON.stringify({ templateID: 'base' }),
  });
  const { envdAccessToken } = (await created.json()) as { envdAccessToken: string };
  const download = (signature: string) => {
    const query = new URLSearchParams({ path: '/tmp/none', signature });
    return fetch(`${server.url}/files?${query}`);
  };
  const right = `v1_${hash('sha256', `/tmp/none:read::${envdAccessToken}`, 'base64').replace(/=+$/, '')}`;
  await eventually(async () => (await download(right)).status === 404, { because: 'the sandbox is ready' });
  let answer: Response | undefined;
  let wrong = 0;
  while (answer?.status !== 429 && wrong < 1000) {
    answer = await download(`v1_${String(wrong).padStart(43, 'A')}`);
    wrong += 1;
  }
  assert.ok(wrong > 20, 'the first ones are looked for');
  assert.equal(answer?.status, 429);
  assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  assert.equal((await download(right)).status, 404);
  await eventually(async () => (await download(`v1_${'B'.repeat(43)}`)).status === 401, {
    because: 'the limit ends after its time',
  });
});
