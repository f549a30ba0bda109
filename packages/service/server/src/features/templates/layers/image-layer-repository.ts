import { randomBytes } from 'node:crypto';
import { LIMITS, type OrgId, type TemplateBuildId } from '@cloche/contract';
import type { Database } from '../../../platform/db/database.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';

/** Time for which a layer is kept after its last use by a build. It exceeds the longest build. */
const IN_USE_MS = LIMITS.templateBuildMs;
/** Most layers that are discarded to make room for one. */
const MOST_REMOVED = 1_000;

/** A compressed layer, as a manifest names it. */
export interface LayerBlob {
  readonly digest: string;
  readonly sizeBytes: number;
}

/** How a build gets a layer. `name` is the name of the layer's content in the artifact store. */
export type LayerClaim =
  | { readonly status: 'stored'; readonly name: string }
  /** The build downloads it, and stores it for others. */
  | { readonly status: 'own'; readonly name: string }
  /** Another build downloads it. */
  | { readonly status: 'awaited' }
  /** The build downloads it for itself. */
  | { readonly status: 'unshared' };

/**
 * Stores which layers each organization has. A row exists from before its content is written until after it is removed.
 * It names the build that downloads the layer, until the layer is stored. A discarded row has no digest.
 */
export class ImageLayerRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  /** Claims a layer for a build. The layers of the organization stay below `limitBytes` together. */
  claim(
    { orgId, buildId }: { readonly orgId: OrgId; readonly buildId: TemplateBuildId },
    { digest, sizeBytes }: LayerBlob,
    limitBytes: number,
    now: number,
  ): Promise<LayerClaim> {
    return this.#transactions.run(async (tx): Promise<LayerClaim> => {
      const { db } = tx;
      await lockOrganization(tx, orgId);
      const rows = db.selectFrom('image_layers').selectAll().where('org_id', '=', orgId);
      const row = await rows.where('digest', '=', digest).executeTakeFirst();
      if (row) {
        const { name, build_id: owner } = row;
        if (row.size_bytes !== sizeBytes) return { status: 'unshared' };
        const update = db.updateTable('image_layers').where('name', '=', name);
        if (owner === null) {
          await update.set({ used_at: now }).execute();
          return { status: 'stored', name };
        }
        if (owner !== buildId && (await isBuilding(tx, owner, now))) return { status: 'awaited' };
        await update.set({ build_id: buildId, used_at: now }).execute();
        return { status: 'own', name };
      }
      if (!(await makeRoom(tx, orgId, limitBytes - sizeBytes, now))) return { status: 'unshared' };
      const name = randomBytes(32).toString('hex');
      const values = { name, org_id: orgId, digest, size_bytes: sizeBytes, build_id: buildId, used_at: now };
      await db.insertInto('image_layers').values(values).execute();
      return { status: 'own', name };
    });
  }

  /** Records that the content of a layer is stored. Does nothing if another build has taken the layer over. */
  async markStored(name: string, buildId: TemplateBuildId, now: number): Promise<void> {
    const update = this.#db.updateTable('image_layers').set({ build_id: null, used_at: now });
    await update.where('name', '=', name).where('build_id', '=', buildId).execute();
  }

  /** Discards a layer that `buildId` does not store, or, without it, one whose content is lost. */
  async discard(name: string, buildId: TemplateBuildId | null): Promise<void> {
    const update = this.#db.updateTable('image_layers').set({ digest: null }).where('name', '=', name);
    await update.where('build_id', buildId === null ? 'is' : '=', buildId).execute();
  }

  /** Discards layers that no build has used since `before`, and unfinished layers whose build has ended. */
  async discardUnused(before: number, now: number): Promise<void> {
    const update = this.#db.updateTable('image_layers').set({ digest: null }).where('digest', 'is not', null);
    await update
      .where('build_id', 'is', null)
      .where('used_at', '<', Math.min(before, now - IN_USE_MS))
      .execute();
    await update
      .where('build_id', 'is not', null)
      .where('used_at', '<', now - 2 * IN_USE_MS)
      .execute();
  }

  /** Returns the names of discarded layers. */
  async listDiscarded(limit: number, after = ''): Promise<string[]> {
    const query = this.#db.selectFrom('image_layers').select('name').where('digest', 'is', null);
    return (await query.where('name', '>', after).orderBy('name').limit(limit).execute()).map(({ name }) => name);
  }

  async isOwned(name: string): Promise<boolean> {
    const query = this.#db.selectFrom('image_layers').select('name').where('name', '=', name);
    return (await query.executeTakeFirst()) !== undefined;
  }

  /** Deletes the row of a discarded layer. Call it after its content was removed. */
  async delete(name: string): Promise<void> {
    await this.#db.deleteFrom('image_layers').where('name', '=', name).where('digest', 'is', null).execute();
  }
}

/** Whether a server runs the build. */
async function isBuilding({ db }: Transaction, buildId: string, now: number): Promise<boolean> {
  const query = db.selectFrom('template_builds').select('id').where('id', '=', buildId);
  const running = query.where('status', '=', 'running').where('claimed_until', '>', now);
  return (await running.executeTakeFirst()) !== undefined;
}

/** Discards the least recently used layers until the rest has at most `leftBytes`. */
async function makeRoom({ db }: Transaction, orgId: OrgId, leftBytes: number, now: number): Promise<boolean> {
  const kept = db.selectFrom('image_layers').where('org_id', '=', orgId).where('digest', 'is not', null);
  const { total } = await kept
    .select(({ fn }) => fn.sum<number | null>('size_bytes').as('total'))
    .executeTakeFirstOrThrow();
  let over = Number(total ?? 0) - leftBytes;
  if (over <= 0) return true;
  if (leftBytes < 0) return false;
  const unused = kept.where('build_id', 'is', null).where('used_at', '<', now - IN_USE_MS);
  const oldest = await unused.select(['name', 'size_bytes']).orderBy('used_at').limit(MOST_REMOVED).execute();
  const removed: string[] = [];
  for (const { name, size_bytes: bytes } of oldest) {
    if (over <= 0) break;
    over -= bytes;
    removed.push(name);
  }
  if (over > 0) return false;
  await db.updateTable('image_layers').set({ digest: null }).where('name', 'in', removed).execute();
  return true;
}
