import { randomUUID } from 'node:crypto';
import { randomIds } from '../../packages/service/server/src/platform/base/id-source.ts';
import {
  claimOwner,
  type IdempotencyRecords,
} from '../../packages/service/server/src/platform/idempotency/idempotency-repository.ts';

/** Time that a record is kept. */
export const DAY_MS = 24 * 3_600_000;
export const SERVER_ID = 'srv_1';
/** Size of the result of a small run. */
export const BODY = JSON.stringify({
  run: { id: randomIds.next('run_'), outputs: [{ value: '2' }], rest: 'x'.repeat(300) },
});
export const SCOPE = {
  orgId: 'org_1',
  apiKeyId: 'key_1',
  method: 'POST',
  route: `/v1/sandboxes/${randomIds.next('sbx_')}/code/runs`,
} as const;

/** Claims the record of a new request and completes it, as each run does. */
export async function claimAndComplete(records: IdempotencyRecords): Promise<void> {
  const id = randomIds.next('idem_');
  const owner = claimOwner(SERVER_ID, id);
  const now = Date.now();
  await records.claim({
    ...SCOPE,
    key: randomUUID(),
    id,
    bodyHash: 'a'.repeat(64),
    owner,
    now,
    expiresAt: now + DAY_MS,
  });
  await records.complete(id, owner, { status: 200, body: BODY });
}
