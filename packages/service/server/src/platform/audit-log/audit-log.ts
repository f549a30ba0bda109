import type { AuditEvent, OrgId, ProjectId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { type PreparedQuery, prepareQuery } from '../db/prepared-query.ts';
import type { AuditHeadTable } from '../db/tables/audit-tables.ts';
import type { Transaction, Transactions } from '../db/transactions.ts';
import { type AuditActor, type AuditRow, FIRST_PREV_HASH, hashOf, type MarkSigner } from './audit-chain.ts';

/** Most characters of a target's id. A refused request may name a target of any length. */
const TARGET_ID_LENGTH = 100;

/** Fields of the target, by name, that are part of its audit event. */
export type AuditChanges = NonNullable<AuditEvent['changes']>;

export interface NewAuditEvent {
  readonly orgId: OrgId;
  readonly projectId?: ProjectId | undefined;
  readonly actor: AuditActor;
  readonly action: string;
  readonly target: { readonly type: string; readonly id: string };
  readonly outcome: AuditEvent['outcome'];
  readonly code?: AuditEvent['code'] | undefined;
  readonly omitted?: number | undefined;
  readonly requestId?: string | undefined;
  readonly ip?: string | undefined;
  readonly changes?: AuditChanges | undefined;
}

export interface AuditLogDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly signer: MarkSigner;
}

/** Stores audit events. The hash of each event covers the event before it in the organization. */
export class AuditLog {
  readonly #deps: AuditLogDeps;
  readonly #next: PreparedQuery<{ org_id: string; last_hash: string }, { last_seq: number; last_hash: string }>;
  readonly #mark: PreparedQuery<Pick<Selectable<AuditHeadTable>, 'org_id' | 'last_hash' | 'signature'>, unknown>;
  readonly #insert: PreparedQuery<AuditRow, unknown>;

  constructor(deps: AuditLogDeps) {
    this.#deps = deps;
    this.#next = prepareNext(deps.db);
    this.#mark = prepareQuery(deps.db, (slots: Pick<AuditHeadTable, 'org_id' | 'last_hash' | 'signature'>) =>
      deps.db
        .updateTable('audit_heads')
        .set({ last_hash: slots.last_hash, signature: slots.signature })
        .where('org_id', '=', slots.org_id),
    );
    this.#insert = prepareInsert(deps.db);
  }

  /**
   * Appends an event in the transaction of its change, or in one of its own. Call it last in the transaction: until the
   * commit it holds the end of the organization's chain, and other transactions that append to it wait.
   */
  async append(event: NewAuditEvent, joined?: Transaction): Promise<void> {
    const { transactions, clock, ids, signer } = this.#deps;
    await transactions.run(async (tx) => {
      const { orgId } = event;
      const [head] = (await this.#next({ org_id: orgId, last_hash: FIRST_PREV_HASH }, tx)).rows;
      if (!head) throw new Error('the end of the chain of audit events was not returned');
      const unhashed = {
        org_id: orgId,
        seq: head.last_seq,
        id: ids.next('aud_'),
        at: clock.now(),
        project_id: event.projectId ?? null,
        actor_type: event.actor.type,
        actor_id: event.actor.id,
        action: event.action,
        target_type: event.target.type,
        target_id: storable(event.target.id.slice(0, TARGET_ID_LENGTH)),
        outcome: event.outcome,
        code: event.code ?? null,
        omitted: event.omitted ?? null,
        request_id: event.requestId ?? null,
        ip: event.ip ?? null,
        changes: event.changes ? JSON.stringify(event.changes) : null,
        prev_hash: head.last_hash,
      };
      const hash = hashOf(unhashed);
      await this.#insert({ ...unhashed, hash }, tx);
      const signature = signer.sign({ kind: 'head', orgId, seq: unhashed.seq, hash });
      await this.#mark({ org_id: orgId, last_hash: hash, signature }, tx);
    }, joined);
  }
}

/** Replaces characters that a database may store in another form, because the hash covers the stored text. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\u{fffd}');
}

/**
 * The upsert locks the end of the chain until the commit, so events follow each other in the order of their commits.
 */
function prepareNext(db: Database) {
  return prepareQuery(db, (slots: { org_id: string; last_hash: string }) =>
    db
      .insertInto('audit_heads')
      .values({ org_id: slots.org_id, last_seq: 1, last_hash: slots.last_hash, signature: '' })
      .onConflict((conflict) =>
        conflict.column('org_id').doUpdateSet((row) => ({ last_seq: row('audit_heads.last_seq', '+', 1) })),
      )
      .returning(['last_seq', 'last_hash']),
  );
}

function prepareInsert(db: Database) {
  return prepareQuery(db, (slots: AuditRow) =>
    db.insertInto('audit_events').values({
      org_id: slots.org_id,
      seq: slots.seq,
      id: slots.id,
      at: slots.at,
      project_id: slots.project_id,
      actor_type: slots.actor_type,
      actor_id: slots.actor_id,
      action: slots.action,
      target_type: slots.target_type,
      target_id: slots.target_id,
      outcome: slots.outcome,
      code: slots.code,
      omitted: slots.omitted,
      request_id: slots.request_id,
      ip: slots.ip,
      changes: slots.changes,
      prev_hash: slots.prev_hash,
      hash: slots.hash,
    }),
  );
}
