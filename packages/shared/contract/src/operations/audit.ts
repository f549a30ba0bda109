import { Type } from 'typebox';
import { AuditEventPage } from '../audit.ts';
import { LIMITS } from '../limits.ts';
import { afterSeq, queryTime } from '../list.ts';
import type { Operation } from '../operation.ts';
import { Text } from '../text.ts';

const exactly = (description: string) =>
  Type.Optional(Text({ minLength: 1, maxLength: LIMITS.auditFilterLength, description }));

export const listAuditEvents = {
  id: 'listAuditEvents',
  method: 'GET',
  path: '/v1/audit-events',
  tag: 'Audit',
  summary: 'List audit events',
  description:
    'Oldest first, in pages addressed by sequence number: continue with `nextSeq` as `afterSeq`. A page looks through a ' +
    'bounded number of events, so with a filter it may have fewer than `limit`, even none, although `hasMore` is true. A ' +
    'key that is bound to projects sees the events of those projects only. Events are kept for 90 days, unless the operator ' +
    'chose another time.',
  scope: 'audit:read',
  idempotency: 'none',
  query: Type.Object(
    {
      afterSeq: Type.Optional(afterSeq('audit events')),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.auditEventsPerPage,
          default: 100,
          description: 'Maximum number of events in the page.',
        }),
      ),
      actor: exactly('Only events of this actor: the id of an API key, `operator` or `system`.'),
      action: exactly('Only events with this action, such as `sandbox.created`.'),
      target: exactly('Only events about the resource with this id.'),
      from: Type.Optional(queryTime('Only events at or after this time, in ISO 8601.')),
      to: Type.Optional(queryTime('Only events before this time, in ISO 8601.')),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: AuditEventPage, description: 'A page of audit events.' },
  errors: [],
} as const satisfies Operation;
