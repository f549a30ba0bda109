import type { Operation } from '@cloche/contract';
import type { RequestAudit } from '../src/platform/audit-log/request-audit.ts';
import type { Clock } from '../src/platform/base/clock.ts';
import type { Call } from '../src/platform/call/call.ts';
import { ListCursors } from '../src/platform/http/list-cursors.ts';
import type { RequestContext } from '../src/platform/http/route.ts';
import type { Attempt } from '../src/platform/idempotency/require-claim.ts';
import type { Credential } from '../src/platform/keys/credential.ts';
import { callOf } from './call.ts';
import { credentialOf } from './seeded-organizations.ts';

export interface TestRequest {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  credential?: Credential;
  idempotency?: Attempt;
  lastEventId?: string;
  signal?: AbortSignal;
  audit?: Pick<RequestAudit, 'announce'>;
  reportRates?: Call['reportRates'];
  /** How long ago the request came in. */
  waitedMs?: number;
}

/** Returns the context of a request as the HTTP layer makes it. Schemas are not checked. */
export function contextOf(request: TestRequest & { signal: AbortSignal }, clock: Clock): RequestContext<Operation> {
  const call = callOf({
    credential: request.credential ?? credentialOf(),
    receivedAt: clock.now() - (request.waitedMs ?? 0),
    signal: request.signal,
    audit: request.audit as RequestAudit | undefined,
    idempotency: request.idempotency,
    ...(request.reportRates && { reportRates: request.reportRates }),
  });
  const { params = {}, query = {}, body, lastEventId } = request;
  const cursors = new ListCursors(Buffer.alloc(32));
  const context = { call, params, query, body, lastEventId, cursors };
  // Schemas are the HTTP layer's matter: tests give what it would let through.
  return context as unknown as RequestContext<Operation>;
}
