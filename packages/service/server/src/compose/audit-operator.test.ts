/** Makes each change of the operator's socket, and requires the audit event to be in its transaction. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { breakAppend, listAuditEvents, readContents } from '../../testing/audited.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants();
  await tenants.createSandbox(tenants.keys.whole);
});
after(() => tenants.close());

const CHANGES = [
  { action: 'api_key.created', path: '/keys', body: { scopes: ['*'] } },
  {
    action: 'organization.quotas_set',
    method: 'PATCH',
    path: '/orgs/default/quotas',
    body: { liveSandboxes: 5 },
  },
  { action: 'sandboxes.destroyed', path: '/destroy-all', body: {} },
];

describe('a change of the operator is not made without its audit event:', () => {
  for (const { action, method, path, body } of CHANGES) {
    it(action, async () => {
      const events = async () =>
        (await listAuditEvents(tenants, tenants.keys.whole, action)).filter(({ actor }) => actor.type === 'operator');
      const before = await readContents(tenants);
      const earlier = await events();
      const broken = breakAppend(action);
      const failed = await tenants.operator(path, body, method);
      broken.mock.restore();
      assert.equal(failed.error?.code, 'internal', JSON.stringify(failed));
      assert.deepEqual(await readContents(tenants), before);
      assert.deepEqual(await events(), earlier);
      await tenants.operator(path, body, method);
      assert.notDeepEqual(await readContents(tenants), before);
      assert.equal((await events()).length, earlier.length + 1);
    });
  }

  it('organization.created', async () => {
    const before = await readContents(tenants);
    const broken = breakAppend('organization.created');
    await tenants.operator('/orgs', { name: 'third' });
    broken.mock.restore();
    assert.deepEqual(await readContents(tenants), before);
    const { org } = await tenants.operator('/orgs', { name: 'third' });
    const [event] = await listAuditEvents(tenants, await tenants.createKey('third'), 'organization.created');
    assert.equal(event?.target.id, org.id);
  });
});

it('the destruction of all sandboxes has no event in an organization without sandboxes', async () => {
  const { whole } = tenants.keys;
  const destroyed = async (key: string) => (await listAuditEvents(tenants, key, 'sandboxes.destroyed')).length;
  const earlier = await destroyed(whole);
  assert.deepEqual(await tenants.operator('/destroy-all', {}), { destroyed: 0 });
  assert.equal(await destroyed(whole), earlier);
  assert.equal(await destroyed(tenants.keys.foreign), 0);
});
