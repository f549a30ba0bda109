/** Ports that E2B's clients name, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { type ApiKeyId, SCOPES } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { type E2bBox, E2bBoxes } from '../../../service/server/testing/e2b-boxes.ts';
import { PortApp } from '../../../service/server/testing/port-app.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';
import { WEB_SOCKET_UPGRADE } from '../../../service/server/testing/web-socket-upgrade.ts';

const PORT = 8000;

let tenants: Tenants;
let boxes: E2bBoxes;
let app: PortApp;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  boxes = new E2bBoxes(tenants.server.url);
  app = await PortApp.open();
});
after(async () => {
  await tenants?.close();
  app?.close();
});

/** Creates a sandbox whose port 8000 is that of the app. */
async function served(body: object = {}, key = tenants.keys.whole): Promise<E2bBox> {
  const box = await boxes.create(key, body);
  tenants.driver.agentOf(box.sandboxId).ports.map(PORT, app.port);
  return box;
}

interface Visit {
  readonly port?: number;
  readonly fields?: Record<string, string>;
  readonly label?: (port: number, id: string) => string;
  readonly at?: Tenants;
}

/** Sends a request to a port of a sandbox, without a token unless `fields` has one. */
async function visit(id: string, { port = PORT, fields = {}, label, at = tenants }: Visit = {}) {
  const url = new URL(at.server.url);
  const host = `${label?.(port, id) ?? `${port}-${id}`}.localhost:${url.port}`;
  const sent = request({ hostname: url.hostname, port: url.port, agent: false, headers: { ...fields, host } });
  sent.on('upgrade', (answer, socket) => {
    sent.emit('response', answer);
    socket.destroy();
  });
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { host, status: answer.statusCode, body: answer.statusCode === 101 ? '' : await text(answer) };
}

describe('a port without a token', () => {
  /** Bodies of creations, and whether their ports are public then, as E2B has it. */
  const CREATIONS: readonly [body: object, isPublic: boolean][] = [
    [{}, true],
    [{ network: null }, true],
    [{ network: {} }, true],
    [{ network: { allowPublicTraffic: null } }, true],
    [{ network: { allowPublicTraffic: true } }, true],
    [{ allow_internet_access: false }, true],
    [{ secure: true }, true],
    [{ network: { allowPublicTraffic: false } }, false],
    [{ secure: false, network: { allowPublicTraffic: false } }, false],
  ];
  for (const [body, isPublic] of CREATIONS) {
    it(`a port without a token is ${isPublic ? 'served' : 'refused'}, if the sandbox was created with ${JSON.stringify(body)}`, async () => {
      const { sandboxId, token } = await served(body);
      assert.equal((await visit(sandboxId)).status, isPublic ? 200 : 401);
      assert.equal((await visit(sandboxId, { fields: { 'e2b-traffic-access-token': token } })).status, 200);
      const { body: shown } = await tenants.call('', 'GET', `/e2b/sandboxes/${sandboxId}`, {
        headers: { 'x-api-key': tenants.keys.whole },
      });
      assert.equal(shown.network.allowPublicTraffic, isPublic);
    });
  }

  it('a port without a token is served at each form of its host, which the app gets', async () => {
    const { sandboxId } = await served();
    const forms: NonNullable<Visit['label']>[] = [
      (port, id) => `${port}-${id}`,
      (port, id) => `${port}-${id.replace('_', '-')}`,
      (port, id) => `${port}-${id}`.toUpperCase(),
    ];
    for (const label of forms) {
      const { host, status } = await visit(sandboxId, { label });
      assert.deepEqual([status, app.seen.host, app.seen['x-forwarded-host']], [200, host, host]);
    }
    assert.equal((await visit(sandboxId, { fields: WEB_SOCKET_UPGRADE })).status, 101);
  });

  it('a port without a token opens no preview, and needs no room in the quota of previews', async () => {
    const { org, key } = await tenants.createOrganization();
    const { sandboxId } = await served({}, key);
    await tenants.operator(`/orgs/${org}/quotas`, { previews: 0 }, 'PATCH');
    for (const port of [PORT, 1, 3000, 65_535]) {
      assert.equal((await visit(sandboxId, { port })).status, port === PORT ? 200 : 502, `${port}`);
    }
    assert.deepEqual((await tenants.call(key, 'GET', '/v1/previews')).body.data, []);
  });

  it('a port without a token gives the app no token, whichever a client sends', async () => {
    const { sandboxId, token } = await served();
    for (const sent of [token, 'x', (await served()).token]) {
      const fields = { 'e2b-traffic-access-token': sent, 'x-access-token': token, 'x-own': 'kept' };
      assert.equal((await visit(sandboxId, { fields })).body, 'the app');
      assert.equal(app.seen['x-own'], 'kept');
      assert.ok(!JSON.stringify(app.seen).includes(token) && !('e2b-traffic-access-token' in app.seen));
    }
  });

  it('a port without a token is refused in every other sandbox, and at ports that are none', async () => {
    const { key } = await tenants.createOrganization();
    const body = { template: 'python-node' };
    const { sandbox } = (await tenants.call(key, 'POST', '/v1/sandboxes', { body, idempotencyKey: 'plain' })).body;
    tenants.driver.agentOf(sandbox.id).ports.map(PORT, app.port);
    // Another client that connects publishes nothing.
    await boxes.connect(key, sandbox.id);
    for (const id of [sandbox.id, 'sbx_0', `${sandbox.id}0`]) assert.equal((await visit(id)).status, 401, id);
    const { sandboxId } = await served();
    for (const port of [0, 65_536, 99_999]) assert.equal((await visit(sandboxId, { port })).status, 401, `${port}`);
  });

  it('a port without a token needs a key that may open previews, and ends with it', async () => {
    const { org, key } = await tenants.createOrganization();
    const scopes = SCOPES.filter((scope) => scope !== 'preview:create');
    const lesser = (await tenants.operator('/keys', { org, scopes })).key.secret;
    assert.equal((await visit((await served({}, lesser)).sandboxId)).status, 401);
    const { key: other } = await tenants.operator('/keys', { org, scopes: ['*'] });
    const { sandboxId } = await served({}, other.secret);
    assert.equal((await visit(sandboxId)).status, 200);
    await tenants.call(key, 'DELETE', `/v1/api-keys/${other.id as ApiKeyId}`);
    assert.equal((await visit(sandboxId)).status, 401);
  });

  it('a port without a token is refused once the sandbox has ended', async () => {
    const { sandboxId } = await served();
    await tenants.call(tenants.keys.whole, 'DELETE', `/v1/sandboxes/${sandboxId}`);
    assert.equal((await visit(sandboxId)).status, 401);
    const short = await served({ timeout: 1 });
    await eventually(async () => (await visit(short.sandboxId)).status === 401, { because: 'the lifetime is over' });
  });

  it('a port without a token is in the audit log once, with the key that has published it', async () => {
    const { key, keyId } = await tenants.createOrganization();
    const { sandboxId } = await served({}, key);
    await served({ network: { allowPublicTraffic: false } }, key);
    const { data } = (await tenants.call(key, 'GET', '/v1/audit-events?limit=100')).body;
    const published = data.filter(({ action }: { action: string }) => action === 'sandbox.ports_published');
    assert.deepEqual(
      published.map(({ target, actor, outcome }: Record<string, { id: string }>) => [target?.id, actor?.id, outcome]),
      [[sandboxId, keyId, 'allowed']],
    );
  });
});

it('an operator’s settings ask for a token at every port, and permit no sudo', async () => {
  const strict = await openTenants({ CLOCHE_E2B: 'on', CLOCHE_E2B_PUBLIC_PORTS: 'off', CLOCHE_E2B_SUDO: 'off' });
  try {
    const box = await new E2bBoxes(strict.server.url).create(strict.keys.whole);
    strict.driver.agentOf(box.sandboxId).ports.map(PORT, app.port);
    assert.equal((await visit(box.sandboxId, { at: strict })).status, 401);
    const plain = await served();
    const permits = [strict.driver.agentOf(box.sandboxId), tenants.driver.agentOf(plain.sandboxId)].map(
      (each) => each.permitsSudo,
    );
    assert.deepEqual(permits, [false, true]);
    const fields = { 'e2b-traffic-access-token': box.token };
    assert.equal((await visit(box.sandboxId, { at: strict, fields })).status, 200);
  } finally {
    await strict.close();
  }
});
