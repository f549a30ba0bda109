/** A server that is upgraded or rolled back by one or two versions of a protocol, beside sandboxes that live on. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { AGENT_PROTOCOL_VERSION, HOSTD_PROTOCOL_VERSION } from '@cloche/protocol';
import { type OwnService, testService } from '../support/service.ts';

const folder = mkdtempSync(join(tmpdir(), 'protocols-'));
const file = join(folder, 'versions.json');
let service: OwnService;

before(async () => {
  // The user of the server reads the file.
  chmodSync(folder, 0o755);
  writeFileSync(file, '{}', { mode: 0o644 });
  const { PROGRAMS } = await import('@cloche/setup');
  const announcing = { server: 'e2e/support/announcing-server.ts', hostd: 'e2e/support/announcing-hostd.ts' };
  const programs = { ...PROGRAMS, ...announcing };
  service = await testService({ ANNOUNCED_PROTOCOLS: file, CLOCHE_POOL_SIZE: '0' }, undefined, { programs });
});
after(async () => {
  await service?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Upgrades server and hostd to a release whose agents have a version that is higher by `difference`. */
async function upgradeAgents(difference: number): Promise<void> {
  writeFileSync(file, JSON.stringify({ AGENT_PROTOCOL_VERSION: AGENT_PROTOCOL_VERSION + difference }));
  await service.restart('hostd');
  await service.restart('server');
}

/** Upgrades the server alone. */
async function upgradeServer(difference: number): Promise<void> {
  writeFileSync(file, JSON.stringify({ HOSTD_PROTOCOL_VERSION: HOSTD_PROTOCOL_VERSION + difference }));
  await service.restart('server');
}

describe('a sandbox whose agent is', () => {
  it('of the version before keeps its variables', async () => {
    const { api } = service;
    const { id } = await api.readySandbox();
    await api.run(id, 'kept = 42');
    await upgradeAgents(1);
    assert.equal((await api.run(id, 'kept')).outputs[0]?.value, '42');
    await api.delete(`/v1/sandboxes/${id}`);
    await upgradeAgents(0);
  });

  for (const agent of [2, -1]) {
    it(`of another version refuses work, and is read, listed and deleted (${agent})`, async () => {
      const { api } = service;
      const [kept, deleted] = [(await api.readySandbox()).id, (await api.readySandbox()).id];
      await api.run(kept, 'kept = 42');
      await upgradeAgents(agent);
      const refused = await api.post(`/v1/sandboxes/${kept}/code/runs`, { code: 'kept', language: 'python' });
      assert.deepEqual([refused.status, refused.body.error.code], [409, 'sandbox_incompatible']);
      assert.equal((await api.get(`/v1/sandboxes/${kept}`)).body.sandbox.status, 'idle');
      const { data } = (await api.get('/v1/sandboxes')).body;
      assert.deepEqual(new Set(data.map(({ id }: { id: string }) => id)), new Set([kept, deleted]));
      assert.equal((await api.delete(`/v1/sandboxes/${deleted}`)).body.sandbox.status, 'destroyed');

      await upgradeAgents(0);
      assert.equal((await api.run(kept, 'kept')).outputs[0]?.value, '42');
      await api.delete(`/v1/sandboxes/${kept}`);
    });
  }
});

describe('a server whose hostd is', () => {
  it('of the version before creates and deletes sandboxes', async () => {
    const { api } = service;
    await upgradeServer(1);
    const { id } = await api.readySandbox();
    assert.equal((await api.delete(`/v1/sandboxes/${id}`)).body.sandbox.status, 'destroyed');
    await upgradeServer(0);
  });
});
