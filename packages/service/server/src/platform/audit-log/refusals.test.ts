import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ApiKeyId, type AuditEvent, operations } from '@cloche/contract';
import { credential, KEY, openAudit, origin } from '../../../testing/audit.ts';

describe('refused requests', () => {
  const refused = (
    operation = operations.listSandboxes as (typeof operations)[keyof typeof operations],
    code = 'forbidden' as const,
  ) => ({
    ...origin,
    operation,
    params: {},
    code,
    status: 403,
  });

  it('refused requests have at most ten events for a key in a minute, and one more with the number of the others', async () => {
    await using audit = await openAudit();
    for (let count = 0; count < 25; count += 1) audit.refusals.record(refused());
    await audit.refusals.flush();
    assert.equal((await audit.events()).length, 10);
    audit.clock.at += 60_000;
    await audit.refusals.flush();
    const last = (await audit.events()).at(-1) as AuditEvent;
    assert.deepEqual([last.seq, last.omitted, last.outcome, last.code], [11, 15, 'denied', 'forbidden']);
  });

  it('refused requests are counted for each key by itself, and the numbers of the current minute are written when the server stops', async () => {
    await using audit = await openAudit();
    const other = { ...refused(), credential: { ...credential, apiKeyId: 'key_2' as ApiKeyId } };
    for (let count = 0; count < 12; count += 1) {
      audit.refusals.record(refused());
      audit.refusals.record(other);
    }
    await audit.refusals.flush(true);
    const omitted = (await audit.events()).filter((event) => event.omitted !== undefined);
    assert.deepEqual(omitted.map((event) => [event.actor.id, event.omitted]).sort(), [
      ['key_1', 2],
      ['key_2', 2],
    ]);
    assert.equal((await audit.events()).length, 22);
  });

  it('refused requests name the operation that was refused, or the resource of a change', async () => {
    await using audit = await openAudit();
    audit.refusals.record(refused());
    audit.refusals.record({ ...refused(operations.killSandbox), params: { sandboxId: 'sbx_9' } });
    await audit.refusals.flush();
    assert.deepEqual(
      // Events of the same moment have no order.
      (await audit.events())
        .map(({ action, target, actor, ip }) => [action, target, actor.id, ip] as const)
        .toSorted(([one], [other]) => one.localeCompare(other)),
      [
        ['request.refused', { type: 'operation', id: 'listSandboxes' }, KEY, '192.0.2.1'],
        ['sandbox.killed', { type: 'sandbox', id: 'sbx_9' }, KEY, '192.0.2.1'],
      ],
    );
  });

  it('refused requests are bounded in size, whatever they name', async () => {
    await using audit = await openAudit();
    audit.refusals.record({ ...refused(operations.killSandbox), params: { sandboxId: '\ud800'.repeat(10_000) } });
    await audit.refusals.flush();
    assert.equal((await audit.events())[0]?.target.id.length, 100);
    assert.equal((await audit.verify()).problemCount, 0);
  });
});
