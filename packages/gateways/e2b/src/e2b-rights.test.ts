/** Rate limits, scopes, quotas and audit inside a sandbox by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { after, before, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { BOX, type Call, E2bBoxes, INTERPRETER } from '../../../service/server/testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let boxes: E2bBoxes;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  boxes = new E2bBoxes(tenants.server.url);
});
after(() => tenants?.close());

const started = (...args: string[]): Call => ({
  port: BOX,
  path: '/process.Process/Start',
  body: { process: { cmd: 'bash', args } },
  inFrame: true,
});
/** A request of each kind that a sandbox gets, and the scope that it needs. */
const REQUESTS: Readonly<Record<string, Call>> = {
  'file:read': { port: BOX, method: 'GET', path: '/files?path=/workspace/a' },
  'file:write': { port: BOX, path: '/filesystem.Filesystem/MakeDir', body: { path: '/workspace/b' } },
  'command:read': { port: BOX, path: '/process.Process/List' },
  'command:run': started('print 1'),
  'code:run': { port: INTERPRETER, path: '/execute', body: { code: 'print 1' } },
};
const CONTEXTS: Call = { port: INTERPRETER, path: '/contexts', body: {} };

it('inside a sandbox the limit of requests holds, and a refusal says when to try again', async () => {
  const { org, key } = await tenants.createOrganization();
  const box = await boxes.create(key);
  await tenants.operator(`/orgs/${org}/quotas`, { requestsPerMinute: 0 }, 'PATCH');
  await eventually(async () => (await tenants.call(key, 'GET', '/v1/sandboxes')).status === 429, {
    because: 'the limit is in force',
  });
  for (const sent of [...Object.values(REQUESTS), CONTEXTS, { ...CONTEXTS, method: 'GET' }]) {
    const refused = await boxes.call(box, sent);
    const text = await refused.text();
    if (sent.inFrame) {
      // A stream of Connect answers 200 and has the error in its last frame.
      assert.match(text, /"resource_exhausted"/, sent.path);
      assert.match(text, /"retry-after":\["\d+"\]/i, sent.path);
    } else {
      assert.equal(refused.status, 429, `${sent.path}: ${text}`);
      assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/, sent.path);
    }
  }
});

it('inside a sandbox each request needs its scope, and a refusal is in the audit log', async () => {
  const { org, key } = await tenants.createOrganization();
  const { sandboxId } = await boxes.create(key);
  for (const [scope, sent] of Object.entries(REQUESTS)) {
    // To connect takes the first two.
    const scopes = ['sandbox:read', 'sandbox:extend', ...Object.keys(REQUESTS)].filter((each) => each !== scope);
    const { key: lesser } = await tenants.operator('/keys', { org, scopes });
    const box = await boxes.connect(lesser.secret, sandboxId);
    const refused = await boxes.call(box, sent);
    assert.match(await refused.text(), new RegExp(`lacks the scope \\\\*"${scope}`));
    await eventually(async () => (await tenants.auditOf(key, lesser.id)).some((event) => event.endsWith(' denied')), {
      because: 'the refusal is in the audit log',
    });
  }
});

it('inside a sandbox what /v1 writes to the audit log is written: commands and contexts, no code and no files', async () => {
  const { key, keyId } = await tenants.createOrganization();
  const box = await boxes.create(key);
  const call = async (sent: Call) => {
    const answer = await boxes.call(box, sent);
    const text = await answer.text();
    assert.ok(answer.ok && !text.includes('"error":{'), `${sent.path}: ${text}`);
  };
  const created = await tenants.call(key, 'POST', `/v1/sandboxes/${box.sandboxId}/code/contexts`, {
    body: { language: 'python' },
    idempotencyKey: 'one',
  });
  const { id } = created.body.context;
  const { length } = await tenants.auditOf(key, keyId);
  await call({ port: BOX, path: '/filesystem.Filesystem/MakeDir', body: { path: '/workspace/b' } });
  await call({ port: INTERPRETER, path: '/execute', body: { code: 'print 1', context_id: id } });
  assert.equal((await tenants.auditOf(key, keyId)).length, length);
  await call(started('print 1'));
  await call({ port: INTERPRETER, method: 'DELETE', path: `/contexts/${id}` });
  assert.deepEqual((await tenants.auditOf(key, keyId)).slice(length).sort(), [
    'command.started allowed',
    'context.deleted allowed',
  ]);
});

it('a port that E2B’s clients name counts to the quota of previews, if it needs a token', async () => {
  const { org, key } = await tenants.createOrganization();
  const box = await boxes.create(key, { network: { allowPublicTraffic: false } });
  await tenants.operator(`/orgs/${org}/quotas`, { previews: 0 }, 'PATCH');
  const { hostname, port } = new URL(tenants.server.url);
  const headers = { host: `8000-${box.sandboxId}.localhost:${port}`, 'e2b-traffic-access-token': box.token };
  const [status, text] = await new Promise<[number | undefined, string]>((resolve, reject) => {
    const sent = request({ hostname, port, headers, agent: false }, async (answer) => {
      resolve([answer.statusCode, await textOf(answer)]);
    });
    sent.once('error', reject).end();
  });
  assert.equal(status, 429, text);
  assert.match(text, /quota `previews`/);
});
