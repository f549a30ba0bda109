import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AUDIT_ACTIONS, operations, type ProjectId } from '@cloche/contract';
import { openAudit, origin } from '../../../testing/audit.ts';
import type { AuditLog } from './audit-log.ts';
import { RequestAudit, targetOf } from './request-audit.ts';

describe('the event of a request', () => {
  const start = (audit: { log: AuditLog }, action = AUDIT_ACTIONS.killSandbox) => {
    assert.ok(action !== 'none');
    return new RequestAudit(audit.log, origin, action);
  };
  const refused = { ...origin, operation: operations.killSandbox, params: { sandboxId: 'sbx_1' }, status: 400 };
  const subject = { id: 'sbx_1', projectId: 'prj_1' as ProjectId };

  it('the event of a request has the resource, its project and the request', async () => {
    await using audit = await openAudit();
    await audit.transactions.run((tx) => start(audit).append(tx, subject));
    await start(audit).announce({ id: 'sbx_2' });
    assert.deepEqual(
      (await audit.events()).map(({ action, target, projectId, requestId }) => [
        action,
        target.id,
        projectId,
        requestId,
      ]),
      [
        ['sandbox.killed', 'sbx_1', 'prj_1', 'req_1'],
        ['sandbox.killed', 'sbx_2', undefined, 'req_1'],
      ],
    );
  });

  it('the event of a request is followed by one of its failure, if the request fails afterwards', async () => {
    await using audit = await openAudit();
    const request = start(audit);
    await audit.transactions.run((tx) => request.append(tx, subject));
    audit.refusals.record({ ...refused, code: 'invalid_request', audit: request });
    await audit.refusals.flush();
    assert.deepEqual(
      (await audit.events()).map(({ outcome, code, target, projectId }) => [outcome, code, target.id, projectId]),
      [
        ['allowed', undefined, 'sbx_1', 'prj_1'],
        ['failed', 'invalid_request', 'sbx_1', 'prj_1'],
      ],
    );
  });

  it('the event of a request does not exist if its transaction is rolled back, or if the caller made an error', async () => {
    await using audit = await openAudit();
    const request = start(audit);
    const lost = audit.transactions.run(async (tx) => {
      await request.append(tx, subject);
      throw new Error('rolled back');
    });
    await assert.rejects(lost, /rolled back/);
    audit.refusals.record({ ...refused, code: 'invalid_request', audit: request });
    await audit.refusals.flush();
    assert.deepEqual(await audit.events(), []);
  });

  it('the event of a request names the resource of the path, else the sandbox', () => {
    const action = { action: 'x', target: 'apiKey' } as const;
    assert.deepEqual(targetOf(action, { apiKeyId: 'key_1' }), { type: 'api_key', id: 'key_1' });
    assert.deepEqual(targetOf(action, { sandboxId: 'sbx_1' }), { type: 'sandbox', id: 'sbx_1' });
    assert.deepEqual(targetOf(action, {}), { type: 'api_key', id: '' });
  });
});
