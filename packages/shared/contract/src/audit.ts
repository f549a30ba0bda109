/** The audit log: the changes that callers made, and the requests that were refused. */
import { type Static, Type } from 'typebox';
import { ERROR_CODES, type ErrorCode } from './errors.ts';
import { AuditEventIdSchema, OrgIdSchema, ProjectIdSchema } from './ids.ts';
import { oneOf } from './list.ts';
import { timestamp } from './timestamps.ts';

export const AUDIT_OUTCOMES = ['allowed', 'denied', 'failed'] as const;
export const AUDIT_ACTORS = ['api_key', 'operator', 'system'] as const;
const HASH_PATTERN = '^[0-9a-f]{64}$';

export const AuditEvent = Type.Object(
  {
    seq: Type.Integer({
      minimum: 1,
      description: 'Number of the event within the organization, from 1, without gaps.',
    }),
    id: AuditEventIdSchema,
    at: timestamp('When it happened.'),
    orgId: OrgIdSchema,
    projectId: Type.Optional(ProjectIdSchema),
    actor: Type.Object(
      {
        type: oneOf(AUDIT_ACTORS),
        id: Type.String({ description: 'Id of the API key; `operator` or `system` for the others.' }),
      },
      { description: 'What made the request: an API key, the operator on the host, or the service itself.' },
    ),
    action: Type.String({ description: 'What happened or was requested, such as `sandbox.created`.' }),
    target: Type.Object(
      {
        type: Type.String({ description: 'Kind of the resource, such as `sandbox`.' }),
        id: Type.String({
          description: 'Id of the resource as the request names it; empty if the request names no resource.',
        }),
      },
      { description: 'The resource that the action is about; for a refused read, the operation.' },
    ),
    outcome: oneOf(
      AUDIT_OUTCOMES,
      '`allowed`: the change was made; a signal, an interrupt or a terminal follows its event. `denied`: refused for a ' +
        'scope or a project. `failed`: the service failed, or the request failed after its `allowed` event was written; a ' +
        'part of the change may have happened.',
    ),
    code: Type.Optional(
      Type.Unsafe<ErrorCode>({ type: 'string', enum: ERROR_CODES, description: 'Error of a refusal or a failure.' }),
    ),
    omitted: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: 'Refusals of the key that this event stands for, because it had too many in one minute.',
      }),
    ),
    requestId: Type.Optional(Type.String({ description: 'Id of the request.' })),
    ip: Type.Optional(Type.String({ description: 'Address of the client.' })),
    changes: Type.Optional(
      Type.Object(
        { hosts: Type.Object({ before: Type.Array(Type.String()), after: Type.Array(Type.String()) }) },
        { description: 'The hosts of a secret before and after a change that sets them.' },
      ),
    ),
    prevHash: Type.String({ pattern: HASH_PATTERN, description: '`hash` of the event before; zeros for the first.' }),
    hash: Type.String({
      pattern: HASH_PATTERN,
      description: 'SHA-256 of this event without `hash`, as JSON with sorted keys and without white space, in UTF-8.',
    }),
  },
  { $id: 'AuditEvent' },
);
export type AuditEvent = Static<typeof AuditEvent>;

export const AuditEventPage = Type.Object(
  {
    data: Type.Array(AuditEvent),
    nextSeq: Type.Integer({ minimum: 0, description: 'Value of `afterSeq` that requests the next page.' }),
    hasMore: Type.Boolean({ description: 'Whether there are later events already, filtered or not.' }),
  },
  { $id: 'AuditEventPage' },
);
export type AuditEventPage = Static<typeof AuditEventPage>;
