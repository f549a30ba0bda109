/** A creation of a context whose request another server has executed since, because the first one stood still. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ApiKeyId, operations } from '@cloche/contract';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';
import { IdempotencyRepository } from '../../platform/idempotency/idempotency-repository.ts';

describe('a context whose first creation fails late', () => {
  it('a context whose first creation fails late stays if a later claim of the request has opened it, and is removed otherwise', async () => {
    for (const isTaken of [true, false]) {
      await using a = await openSandboxes();
      await using b = await a.beside('srv_2');
      const sandboxId = await a.createReady();
      const records = new IdempotencyRepository(a.db);
      const scope = { orgId: ORG, apiKeyId: 'key_1' as ApiKeyId, method: 'POST', route: '/v1/x', key: 'k' };
      const claim = async (owner: string) => {
        const request = { ...scope, id: 'idem_1', bodyHash: '', owner, now: 0, expiresAt: 1_000 };
        const { id: recordId, claim: number } = (await records.claim(request)) ?? assert.fail('the claim was refused');
        return { recordId, claim: number };
      };
      const agent = a.driver.agentOf(sandboxId);
      const standstill = Promise.withResolvers<void>();
      agent.openGate = standstill.promise;
      const call = { params: { sandboxId }, body: { language: 'python' } };
      const first = a.call(operations.createContext, { ...call, idempotency: await claim('srv_1:1') });
      const refused = assert.rejects(first);
      const list = async () =>
        (await b.call(operations.listContexts, { params: { sandboxId } })).data.map(({ id }) => id);
      await a.until(async () => (await list()).length === 1);
      const [id] = await list();
      agent.openGate = undefined;
      if (isTaken) {
        await records.fail('idem_1', 'srv_1:1');
        const again = await b.call(operations.createContext, { ...call, idempotency: await claim('srv_2:1') });
        assert.equal(again.context.id, id);
      }
      standstill.reject(new Error('the first server goes on, and finds its connection broken'));
      await refused;
      assert.deepEqual(await list(), isTaken ? [id] : []);
      if (isTaken) assert.equal((await b.run(sandboxId, 'print kept', { contextId: id })).stdout, 'kept\n');
    }
  });
});
