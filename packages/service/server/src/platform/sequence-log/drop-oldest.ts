import type { Transaction } from '../db/transactions.ts';

/** Entries looked at by one query. */
const LOOK_AT_ONCE = 256;
/** In `bytes`, marks the entry that says how much was dropped before it. */
const MARKER = -1;

interface FullLog {
  readonly id: string;
  readonly last_seq: number;
  readonly output_bytes: number;
  readonly dropped_bytes: number;
}

interface DropOptions {
  readonly keptBytes: number;
  /** Counted for each entry besides its bytes. */
  readonly overheadBytes: number;
  readonly at: number;
}

/**
 * Drops the oldest output of a log until at most `keptBytes` remain. A `system` entry takes the number of the last
 * dropped entry and states how much was dropped. So a reader that has not read the dropped entries finds out, and only
 * once.
 */
export async function dropOldest(
  { db }: Transaction,
  log: FullLog,
  { keptBytes, overheadBytes, at }: DropOptions,
): Promise<void> {
  const output = db.selectFrom('sequence_log_entries').select(['seq', 'bytes']).where('log_id', '=', log.id);
  const first = await output.where('bytes', '>', 0).orderBy('seq').limit(1).executeTakeFirst();
  if (!first) return;
  // Counts the entries that are never dropped among them as output, which are few.
  let kept = log.output_bytes - log.dropped_bytes + (log.last_seq - first.seq + 1) * overheadBytes;
  let dropped = log.dropped_bytes;
  let cut = 0;
  while (kept > keptBytes) {
    const oldest = await output
      .where('bytes', '>', 0)
      .where('seq', '>', cut)
      .orderBy('seq')
      .limit(LOOK_AT_ONCE)
      .execute();
    if (oldest.length === 0) break;
    for (const { seq, bytes } of oldest) {
      if (kept <= keptBytes) break;
      kept -= bytes + overheadBytes;
      dropped += bytes;
      cut = seq;
    }
  }
  if (cut === 0) return;
  const entries = db.deleteFrom('sequence_log_entries').where('log_id', '=', log.id);
  await entries.where('seq', '<', cut).where('bytes', '<>', 0).execute();
  const data = JSON.stringify(`[cloche: ${dropped} bytes dropped from the start of the output]\n`);
  await db
    .updateTable('sequence_log_entries')
    .set({ type: 'system', data, bytes: MARKER, at })
    .where('log_id', '=', log.id)
    .where('seq', '=', cut)
    .execute();
  await db.updateTable('sequence_logs').set({ dropped_bytes: dropped }).where('id', '=', log.id).execute();
}
