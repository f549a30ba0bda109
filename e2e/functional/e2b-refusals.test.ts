/** Holds the refusals of E2B's protocol: rights, limits, broken input, and what Cloche does not have. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import * as newest from 'e2b';
import { Api } from '../support/api.ts';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let options: E2bOptions;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
});
after(() => service?.close());

describe('what is refused', () => {
  it('a token opens its own sandbox alone', async () => {
    const [one, other] = await Promise.all([
      newest.Sandbox.create({ ...options, ...LASTING }),
      newest.Sandbox.create({ ...options, ...LASTING }),
    ]);
    const { envdAccessToken } = one as unknown as { envdAccessToken: string };
    const stat = (sandboxId: string, token: string) =>
      fetch(`${options.sandboxUrl}/files?path=/etc/hostname`, {
        headers: { 'e2b-sandbox-id': sandboxId, 'x-access-token': token },
      });
    assert.equal((await stat(one.sandboxId, envdAccessToken)).status, 200);
    for (const [id, token] of [
      [other.sandboxId, envdAccessToken],
      [one.sandboxId, ''],
      [one.sandboxId, 'x'],
    ] as const) {
      assert.equal((await stat(id, token)).status, 401);
    }
    await Promise.all([one.kill(), other.kill()]);
    assert.equal(await one.isRunning(), false);
  });

  it('a key without the scope, and one of another organization', async () => {
    const sandbox = await newest.Sandbox.create({ ...options, ...LASTING });
    const reading = await service.createKey({ scopes: ['sandbox:read'] });
    await assert.rejects(newest.Sandbox.create({ ...options, apiKey: reading }), /403|forbidden/i);
    const foreign = await service.createKey({ org: await service.createOrg('e2b-other'), scopes: ['*'] });
    await assert.rejects(newest.Sandbox.connect(sandbox.sandboxId, { ...options, apiKey: foreign }), /not found/i);
    await sandbox.kill();
  });

  it('what exceeds the limits of the organization, and each change has its audit event', async () => {
    const org = await service.createOrg('e2b-limited');
    const own = { ...options, apiKey: await service.createKey({ org, scopes: ['*'] }) };
    const api = new Api(service.url, own.apiKey);
    const [project] = (await api.get('/v1/projects')).body.data;
    await api.request('PATCH', `/v1/projects/${project.id}`, { body: { quotas: { liveSandboxes: 1 } } });
    const sandbox = await newest.Sandbox.create({ ...own, ...LASTING });
    await assert.rejects(newest.Sandbox.create(own), newest.RateLimitError);
    await sandbox.kill();
    const events = await api.get('/v1/audit-events?limit=100');
    const actions = events.body.data.map(({ action, target }: { action: string; target: { id: string } }) => [
      action,
      target.id,
    ]);
    assert.deepEqual(
      actions
        .filter(([, id]: [string, string]) => id === sandbox.sandboxId)
        .map(([action]: [string]) => action)
        .sort(),
      ['sandbox.created', 'sandbox.killed', 'sandbox.ports_published'],
    );
  });

  it('frames that are cut off, too long or no JSON', async () => {
    const sandbox = await newest.Sandbox.create({ ...options, ...LASTING });
    const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string };
    const headers = {
      'e2b-sandbox-id': sandbox.sandboxId,
      'x-access-token': envdAccessToken,
      'content-type': 'application/connect+json',
    };
    const start = async (body: Uint8Array<ArrayBuffer>) => {
      const url = `${options.sandboxUrl}/process.Process/Start`;
      const response = await fetch(url, { method: 'POST', headers, body });
      return Buffer.from(await response.arrayBuffer()).toString();
    };
    const frame = (text: string, length = Buffer.byteLength(text)) => {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(length, 1);
      return new Uint8Array(Buffer.concat([head, Buffer.from(text)]));
    };
    const refused = {
      'cut off': frame('{}', 100),
      'too long': frame('{}', 2 ** 32 - 1),
      'no JSON': frame('{'),
      empty: new Uint8Array(),
    };
    for (const [name, body] of Object.entries(refused)) assert.match(await start(body), /"error":\{"code":"/, name);
    assert.equal((await sandbox.commands.list()).length, 0);
    const half = new Headers({ ...headers, 'content-type': 'application/json' });
    const post = (path: string, body: string) =>
      fetch(options.sandboxUrl + path, { method: 'POST', headers: half, body });
    assert.equal((await post('/process.Process/Update', '{"process":{"pid":1}}')).status, 400);
    assert.equal(
      (await post('/process.Process/SendInput', '{"process":{"pid":4294967295},"input":{"pty":"eA=="}}')).status,
      404,
    );
    half.set('e2b-sandbox-port', '49999');
    assert.equal((await post('/execute', '{"code":"1","env_vars":{"x":1.5}')).status, 400);
    assert.equal((await post('/execute', '{"code":"1","env_vars":[]}')).status, 400);
    // It is refused by its length, before any of it is sent.
    const tooLong = request(`${options.sandboxUrl}/execute`, {
      method: 'POST',
      headers: { ...Object.fromEntries(half), 'content-length': 9 * 2 ** 20 },
    });
    tooLong.on('error', () => undefined).flushHeaders();
    const [refusal] = (await once(tooLong, 'response', { signal: AbortSignal.timeout(60_000) })) as [IncomingMessage];
    tooLong.destroy();
    assert.equal(refusal.statusCode, 413);
    await sandbox.kill();
  });

  it('ids of another organization: terminals, secrets and templates', async () => {
    const foreign = await service.createKey({ org: await service.createOrg('e2b-foreign'), scopes: ['*'] });
    const theirs = { ...options, apiKey: foreign };
    const secret = await newest.Secret.create('mine', 'value', { ...options, metadata: { hosts: 'a.example' } });
    for (const name of ['mine', secret.secretId]) {
      assert.equal(await newest.Secret.exists(name, theirs), false);
      assert.equal(await newest.Secret.destroy(name, theirs), false);
      await assert.rejects(newest.Secret.update(name, 'stolen', theirs), newest.SecretNotFoundError);
    }
    assert.equal(await newest.Secret.destroy('mine', options), true);
    const sandbox = await newest.Sandbox.create({ ...options, ...LASTING });
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
    const other = await newest.Sandbox.create({ ...theirs, ...LASTING });
    assert.equal(await other.pty.kill(terminal.pid), false);
    await assert.rejects(other.pty.sendInput(terminal.pid, new Uint8Array([3])), newest.NotFoundError);
    assert.equal(await sandbox.pty.kill(terminal.pid), true);
    await Promise.all([sandbox.kill(), other.kill()]);
  });

  it('terminals without the scope, and each has its audit event', async () => {
    // Its audit log has the events of this test alone.
    const org = await service.createOrg('e2b-terminals');
    const own = { ...options, apiKey: await service.createKey({ org, scopes: ['*'] }) };
    const sandbox = await newest.Sandbox.create({ ...own, ...LASTING });
    const reading = await service.createKey({ org, scopes: ['sandbox:read', 'command:read'] });
    const reader = await newest.Sandbox.connect(sandbox.sandboxId, { ...options, apiKey: reading });
    const size = { cols: 80, rows: 24, onData: () => undefined };
    await assert.rejects(reader.pty.create(size), /command:run|scope/);
    const terminal = await sandbox.pty.create(size);
    await assert.rejects(reader.pty.resize(terminal.pid, { cols: 1, rows: 1 }), /command:run|scope/);
    await terminal.kill();
    const { body } = await new Api(service.url, own.apiKey).get('/v1/audit-events?limit=100');
    const actions = body.data
      .filter((event: { target: { type: string } }) => event.target.type === 'command')
      .map(({ action }: { action: string }) => action);
    assert.ok(actions.includes('command.started') && actions.includes('command.killed'), actions.join());
    await sandbox.kill();
  });

  it('a feature that Cloche does not have, in plain words', async () => {
    const volumes = { ...options, volumeMounts: { '/data': 'vol' } };
    await assert.rejects(newest.Sandbox.create(volumes), /does not have volumeMounts yet/);
    const sandbox = await newest.Sandbox.create({ ...options, ...LASTING });
    await assert.rejects(sandbox.createSnapshot(), /yet/);
    await sandbox.kill();
  });
});
