import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS, type OrgId } from '@cloche/contract';
import { sql } from 'kysely';
import { AppError } from '../base/app-error.ts';
import type { Database } from '../db/database.ts';

/** Resolution of expiry times: a record counts for at most an hour longer than it is kept. */
export const HOUR_MS = 3_600_000;
/** Pause between reading one hour of records and the next, so that requests do not wait for all of them. */
const REST_MS = 20;

/**
 * Limits the disk space of each organization's records. Records are kept for their whole retention time, because replay
 * is promised, so new requests are refused beyond the limit.
 */
export class ReplayQuota {
  readonly limitBytes: number;
  /** Bytes by the hour in which they expire. */
  readonly #byOrganization = new Map<string, Map<number, number>>();

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  /** @param bytes negative for released bytes. */
  add(orgId: OrgId, expiresAt: number, bytes: number): void {
    const hours = this.#byOrganization.get(orgId) ?? new Map<number, number>();
    const hour = Math.floor(expiresAt / HOUR_MS);
    hours.set(hour, (hours.get(hour) ?? 0) + bytes);
    this.#byOrganization.set(orgId, hours);
  }

  /** Replaces the counted bytes of all records that expire in an hour. */
  replace(hour: number, bytes: ReadonlyMap<OrgId, number>): void {
    for (const hours of this.#byOrganization.values()) hours.delete(hour);
    for (const [orgId, counted] of bytes) this.add(orgId, hour * HOUR_MS, counted);
  }

  usedBytes(orgId: OrgId, now: number): number {
    let used = 0;
    const hours = this.#byOrganization.get(orgId) ?? new Map<number, number>();
    for (const [hour, bytes] of hours) {
      if ((hour + 1) * HOUR_MS <= now) hours.delete(hour);
      else used += bytes;
    }
    return used;
  }

  /** @throws AppError `quota_exceeded` */
  require(orgId: OrgId, now: number): void {
    const used = this.usedBytes(orgId, now);
    if (used < this.limitBytes) return;
    throw new AppError(
      'quota_exceeded',
      `The organization's responses stored for Idempotency-Key replay take ${used} bytes, and their limit is ${this.limitBytes}. ` +
        'Each response is stored for 24 hours: print less, or ask the operator for a higher limit.',
      { details: { quota: 'replay_bytes', limit: this.limitBytes, used } },
    );
  }

  /** Adds the records that the database had before `now`, hour by hour. */
  async learn(db: Database, now: number, isOver: () => boolean): Promise<void> {
    const end = now + LIMITS.idempotencyRetentionMs;
    for (let from = now; from < end && !isOver(); from += HOUR_MS) {
      const to = Math.min(from + HOUR_MS, end);
      const rows = await db
        .selectFrom('idempotency_records')
        .select(['org_id', sql<number>`sum(stored_bytes)`.as('bytes')])
        .where('expires_at', '>=', from)
        .where('expires_at', '<', to)
        .groupBy('org_id')
        .execute();
      // Sound: the column holds organization ids.
      for (const { org_id: orgId, bytes } of rows) this.add(orgId as OrgId, to - 1, bytes);
      await delay(REST_MS, undefined, { ref: false });
    }
  }
}
