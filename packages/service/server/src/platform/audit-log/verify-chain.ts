import type { AuditProblem, AuditVerification } from '@cloche/protocol';
import type { Database } from '../db/database.ts';
import { type AuditRow, FIRST_PREV_HASH, hashOf, type MarkSigner } from './audit-chain.ts';

const PAGE = 500;
/** Problems that a verification lists; it counts the others. */
const LISTED_PROBLEMS = 100;

interface Position {
  readonly seq: number;
  readonly hash: string;
}

/**
 * Checks chains of organizations. Finds events that were changed, removed or inserted, including events removed
 * at the end. From the database alone it cannot find a change whose author also had the signing secret, nor that the
 * whole database was replaced by an older copy; a comparison with an exported copy shows both.
 */
export class VerifyChain {
  readonly #db: Database;
  readonly #signer: MarkSigner;

  constructor(db: Database, signer: MarkSigner) {
    this.#db = db;
    this.#signer = signer;
  }

  /**
   * Checks the chains of all organizations. These include organizations that only the tables of audit events know,
   * because a removed row must not hide a chain.
   */
  async verifyAll(): Promise<AuditVerification[]> {
    const db = this.#db;
    const ids = await db
      .selectFrom('orgs')
      .select('id as org_id')
      .union(db.selectFrom('audit_heads').select('org_id'))
      .union(db.selectFrom('audit_cuts').select('org_id'))
      .union(db.selectFrom('audit_events').select('org_id'))
      .orderBy('org_id')
      .execute();
    const reports: AuditVerification[] = [];
    for (const { org_id } of ids) reports.push(await this.verify(org_id));
    return reports;
  }

  /** Reads the events page by page. Events that are appended meanwhile do no harm. */
  async verify(orgId: string): Promise<AuditVerification> {
    const found = new Problems();
    const head = await this.#head(orgId);
    let last = await this.#begin(orgId, found);
    let events = 0;
    for (;;) {
      const rows = await this.#page(orgId, last.seq, head?.seq ?? Number.MAX_SAFE_INTEGER);
      const [first] = rows;
      if (!first) break;
      // Retention may have deleted events since the last page.
      if (first.seq !== last.seq + 1) last = later(last, await this.#cut(orgId));
      for (const row of rows) {
        if (row.seq <= last.seq) continue;
        checkEvent(row, last, found);
        last = row;
        events += 1;
      }
    }
    await this.#end(orgId, last, head, found);
    return { orgId, events, lastSeq: last.seq, lastHash: last.hash, ...found.report() };
  }

  /** Returns the position before the first kept event. */
  async #begin(orgId: string, found: Problems): Promise<Position> {
    const cut = await this.#cut(orgId);
    if (!cut) return { seq: 0, hash: FIRST_PREV_HASH };
    if (!this.#signer.isValid({ kind: 'cut', orgId, ...cut }, cut.signature)) {
      found.add(cut.seq, 'changed', 'The signature of the cut, after which the kept events begin, is wrong.');
    }
    const before = await this.#db
      .selectFrom('audit_events')
      .select('seq')
      .where('org_id', '=', orgId)
      .where('seq', '<=', cut.seq)
      .limit(LISTED_PROBLEMS)
      .execute();
    for (const { seq } of before) found.add(seq, 'inserted', 'The event stands before the cut.');
    return cut;
  }

  async #end(orgId: string, last: Position, head: SignedPosition | undefined, found: Problems): Promise<void> {
    if (!head) {
      if (last.seq > 0) found.add(last.seq, 'removed', 'The record of the newest event is gone.');
      return;
    }
    if (!this.#signer.isValid({ kind: 'head', orgId, ...head }, head.signature)) {
      found.add(head.seq, 'changed', 'The signature of the record of the newest event is wrong.');
    }
    if (last.seq < head.seq) {
      found.add(last.seq + 1, 'removed', `The events ${last.seq + 1} to ${head.seq} at the end are missing.`);
    } else if (last.seq === head.seq && last.hash !== head.hash) {
      found.add(head.seq, 'changed', 'The newest event is not the recorded one.');
    }
    const query = this.#db.selectFrom('audit_events').select(({ fn }) => fn.max('seq').as('seq'));
    const newest = (await query.where('org_id', '=', orgId).executeTakeFirst())?.seq ?? 0;
    const recorded = (await this.#head(orgId))?.seq ?? 0;
    if (newest > recorded) found.add(newest, 'inserted', 'The event is newer than the recorded newest one.');
  }

  async #head(orgId: string): Promise<SignedPosition | undefined> {
    return this.#db
      .selectFrom('audit_heads')
      .select(['last_seq as seq', 'last_hash as hash', 'signature'])
      .where('org_id', '=', orgId)
      .executeTakeFirst();
  }

  async #cut(orgId: string): Promise<SignedPosition | undefined> {
    return this.#db
      .selectFrom('audit_cuts')
      .select(['seq', 'hash', 'signature'])
      .where('org_id', '=', orgId)
      .executeTakeFirst();
  }

  #page(orgId: string, afterSeq: number, until: number): Promise<AuditRow[]> {
    const query = this.#db.selectFrom('audit_events').selectAll().where('org_id', '=', orgId);
    return query.where('seq', '>', afterSeq).where('seq', '<=', until).orderBy('seq').limit(PAGE).execute();
  }
}

interface SignedPosition extends Position {
  readonly signature: string;
}

function later(position: Position, cut: Position | undefined): Position {
  return cut && cut.seq > position.seq ? cut : position;
}

function checkEvent(row: AuditRow, last: Position, found: Problems): void {
  const { hash, ...unhashed } = row;
  if (row.seq !== last.seq + 1) {
    const which = row.seq === last.seq + 2 ? `${last.seq + 1} is` : `${last.seq + 1} to ${row.seq - 1} are`;
    found.add(last.seq + 1, 'removed', `Event ${which} missing.`);
  } else if (row.prev_hash !== last.hash) {
    found.add(row.seq, 'inserted', 'The event does not follow the one before: one of them was changed or inserted.');
  }
  if (hashOf(unhashed) !== hash) found.add(row.seq, 'changed', 'The content of the event does not match its hash.');
}

class Problems {
  readonly #listed: AuditProblem[] = [];
  #count = 0;

  add(seq: number, kind: AuditProblem['kind'], message: string): void {
    this.#count += 1;
    if (this.#listed.length < LISTED_PROBLEMS) this.#listed.push({ seq, kind, message });
  }

  report(): Pick<AuditVerification, 'problems' | 'problemCount'> {
    return { problems: this.#listed, problemCount: this.#count };
  }
}
