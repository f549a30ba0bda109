/**
 * Operator ↔ server: HTTP/1.1 over `operator.sock` in the run folder, which only root and the server can reach.
 * `cloche admin` uses it. The server offers none of these operations to the network.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `POST /orgs` | `CreateOrg` → `OrgCreated`, with the default project |
 * | `GET /orgs` | → `OrgList` |
 * | `GET /orgs/{org}/quotas` | → `QuotaList`; `org` is an id or a name |
 * | `PATCH /orgs/{org}/quotas` | limits by quota, as in `quotas` of a project → `QuotaList`. Sets the given limits, `null` removes one. |
 * | `POST /keys` | `CreateKey` → `KeyCreated`, with the key, which is shown only once |
 * | `POST /keys/{key}/revoke` | → `KeyRevoked`, also when it was revoked before |
 * | `POST /first-key` | → `KeyCreated`, or 409 `conflict` when a key exists already |
 * | `POST /reconcile` | → `ReconcileReport` of one reconciliation, run now |
 * | `POST /destroy-all` | → `{ destroyed }`: every live sandbox ends with `platform_cleanup` |
 * | `POST /rotate-secrets` | → `{ rotated }`: every secret is encrypted with the newest key |
 * | `GET /audit/verify?org=` | → `AuditVerification` of the organization, by id or name |
 * | `GET /audit/verify` | → `AuditVerifications` of all organizations |
 * | `GET /audit/export?org=&from=&to=` | → audit events as JSON lines, oldest first; times in ISO 8601 |
 */
import { type Static, Type } from 'typebox';
import { Amount, Count, MAX_LISTED, Ordinal, Sentence, Word } from './bounded.ts';

export const CreateOrg = Type.Object(
  { name: Type.String({ minLength: 1, maxLength: 100 }) },
  { additionalProperties: false },
);
export type CreateOrg = Static<typeof CreateOrg>;
export const OrgCreated = Type.Object({
  org: Type.Object({
    id: Word,
    name: Word,
    defaultProjectId: Word,
    createdAt: Word,
  }),
});
export type OrgCreated = Static<typeof OrgCreated>;
export const OrgList = Type.Object({ data: Type.Array(OrgCreated.properties.org, { maxItems: MAX_LISTED }) });
export type OrgList = Static<typeof OrgList>;

export const QuotaList = Type.Object({
  data: Type.Array(Type.Object({ quota: Word, limit: Type.Union([Count, Type.Null()]), used: Amount }), {
    maxItems: 1_000,
  }),
});
export type QuotaList = Static<typeof QuotaList>;

export const CreateKey = Type.Object(
  {
    /** Id or name; the first organization when left out. */
    org: Type.Optional(Word),
    name: Type.Optional(Type.String({ maxLength: 100 })),
    scopes: Type.Array(Word, { minItems: 1, maxItems: 64 }),
    /** Projects that the key is limited to; all of the organization's when left out. */
    projectIds: Type.Optional(Type.Array(Word, { minItems: 1, maxItems: 100 })),
    expiresInMs: Type.Optional(Ordinal),
  },
  { additionalProperties: false },
);
export type CreateKey = Static<typeof CreateKey>;
export const KeyCreated = Type.Object({
  key: Type.Object({
    id: Word,
    orgId: Word,
    scopes: Type.Array(Word, { maxItems: 64 }),
    projectIds: Type.Optional(Type.Array(Word, { maxItems: 1_000 })),
    expiresAt: Type.Optional(Word),
    /** Shown once; only its hash is kept. */
    secret: Word,
  }),
});
export type KeyCreated = Static<typeof KeyCreated>;

export const KeyRevoked = Type.Object({ key: Type.Object({ id: Word }) });
export type KeyRevoked = Static<typeof KeyRevoked>;

export const ReconcileReport = Type.Object({
  instancesRemoved: Count,
  sandboxesEnded: Count,
});
export type ReconcileReport = Static<typeof ReconcileReport>;

/** Result of the verification of an organization's audit events. */
export const AuditVerification = Type.Object({
  orgId: Word,
  /** Number of events that were checked. */
  events: Count,
  /** Number and hash of the newest event. */
  lastSeq: Count,
  lastHash: Word,
  /** The first problems. */
  problems: Type.Array(
    Type.Object({
      seq: Count,
      kind: Type.Union([Type.Literal('changed'), Type.Literal('removed'), Type.Literal('inserted')]),
      message: Sentence,
    }),
    { maxItems: 1_000 },
  ),
  problemCount: Count,
});
export type AuditVerification = Static<typeof AuditVerification>;
export const AuditVerifications = Type.Object({ data: Type.Array(AuditVerification, { maxItems: MAX_LISTED }) });
export type AuditVerifications = Static<typeof AuditVerifications>;
export type AuditProblem = AuditVerification['problems'][number];
