import type { OrgId, TemplateVersionId } from '@cloche/contract';
import type { Database } from '../../../platform/db/database.ts';
import type { InstalledPackages } from './installed-packages.ts';

export interface CachedStep {
  /** Version that holds the result of the step. */
  readonly versionId: TemplateVersionId;
  /** Version that the step was run in. */
  readonly fromVersionId: TemplateVersionId;
  /** Layers of the version, those of the versions below included. */
  readonly layers: number;
  readonly sizeBytes: number;
  /** Undefined if they were not listed. */
  readonly packages: InstalledPackages | undefined;
  /** Variables of the image that the first step unpacked; undefined without an image. */
  readonly imageEnv: Readonly<Record<string, string>> | undefined;
}

/**
 * Caches the results of steps by their keys. Each organization has its own cache, so that files that a step of one
 * organization downloaded or computed never reach another organization.
 */
export class StepCache {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Finds the result with the last of the keys that has one. Marks it as used. */
  async findLast(
    orgId: OrgId,
    keys: readonly string[],
    now: number,
  ): Promise<{ readonly index: number; readonly step: CachedStep } | undefined> {
    if (keys.length === 0) return undefined;
    const rows = await this.#db
      .selectFrom('template_steps')
      .selectAll()
      .where('org_id', '=', orgId)
      .where('key', 'in', keys)
      .execute();
    const byKey = new Map(rows.map((row) => [row.key, row]));
    const index = keys.findLastIndex((key) => byKey.has(key));
    const row = byKey.get(keys[index] ?? '');
    if (!row) return undefined;
    await this.#db
      .updateTable('template_steps')
      .set({ used_at: now })
      .where('org_id', '=', orgId)
      .where('key', 'in', keys.slice(0, index + 1))
      .execute();
    return {
      index,
      step: {
        versionId: row.version_id as TemplateVersionId,
        fromVersionId: row.from_version_id as TemplateVersionId,
        layers: row.layers,
        sizeBytes: row.size_bytes,
        packages: row.packages === null ? undefined : JSON.parse(row.packages),
        imageEnv: row.image_env === null ? undefined : JSON.parse(row.image_env),
      },
    };
  }

  /** Stores a result. A later one replaces it, for example after the host lost the first. */
  async save(orgId: OrgId, key: string, step: CachedStep, now: number): Promise<void> {
    const columns = {
      version_id: step.versionId,
      from_version_id: step.fromVersionId,
      layers: step.layers,
      size_bytes: step.sizeBytes,
      packages: step.packages ? JSON.stringify(step.packages) : null,
      image_env: step.imageEnv ? JSON.stringify(step.imageEnv) : null,
      used_at: now,
    };
    await this.#db
      .insertInto('template_steps')
      .values({ org_id: orgId, key, ...columns })
      .onConflict((conflict) => conflict.columns(['org_id', 'key']).doUpdateSet(columns))
      .execute();
  }

  /** Forgets a version that the host has lost. */
  async forget(orgId: OrgId, versionId: TemplateVersionId): Promise<void> {
    const query = this.#db.deleteFrom('template_steps').where('org_id', '=', orgId);
    await query.where('version_id', '=', versionId).execute();
  }
}
