import type { ExpressionBuilder } from 'kysely';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { Database, Tables } from '../../db/database.ts';
import { CaptureError, type RuntimeDriver } from '../../driver/runtime-driver.ts';
import { OCCUPYING_STATUSES } from '../../sandboxes/record/sandbox.ts';
import { UNFINISHED } from './template-build.ts';

/** Versions removed in one sweep. */
const MOST = 500;

export interface RemoveVersionsDeps {
  readonly db: Database;
  readonly driver: Pick<RuntimeDriver, 'removeVersion'>;
  readonly clock: Clock;
  readonly log: Logger;
}

type Version = Tables['custom_template_versions'];
type Joined = ExpressionBuilder<
  Tables & { version: Version; template: Tables['custom_templates'] },
  'version' | 'template'
>;

/**
 * Removes what builds have made and nothing needs any more. A version goes when no sandbox runs on it, nothing is made
 * from it, and no build or workspace run names it; and if it is not the default one of its template, only a time after
 * its last use. Those of a deleted template go at once.
 */
export class RemoveVersions {
  readonly #deps: RemoveVersionsDeps;

  constructor(deps: RemoveVersionsDeps) {
    this.#deps = deps;
  }

  /** Removes what was not used since the time `before`. Returns the number of versions. */
  async sweep(before: number): Promise<number> {
    const { db } = this.#deps;
    await db.deleteFrom('template_steps').where('used_at', '<', before).execute();
    await db.deleteFrom('template_builds').where('finished_at', '<', before).where('claimed_by', 'is', null).execute();
    let removed = 0;
    for (const { id, template_id: templateId } of await this.#unneeded(before)) {
      if (await this.#remove(id, templateId)) removed += 1;
    }
    return removed;
  }

  async #unneeded(before: number) {
    return this.#deps.db
      .selectFrom('custom_template_versions as version')
      .innerJoin('custom_templates as template', 'template.id', 'version.template_id')
      .select(['version.id', 'version.template_id'])
      .where('version.removed_at', 'is', null)
      .where((eb) => eb.or([eb('template.deleted_at', 'is not', null), isOld(eb, before)]))
      .where((eb) => eb.not(eb.exists(sandboxesOf(eb).where('sandboxes.status', 'in', OCCUPYING_STATUSES))))
      .where((eb) =>
        eb.not(
          eb.exists(
            eb
              .selectFrom('custom_template_versions as above')
              .select('above.id')
              .whereRef('above.from_version_id', '=', 'version.id')
              .where('above.removed_at', 'is', null),
          ),
        ),
      )
      .where((eb) =>
        eb.not(
          eb.exists(
            eb
              .selectFrom('template_builds')
              .select('template_builds.id')
              .whereRef('template_builds.from_version_id', '=', 'version.id')
              .where('template_builds.status', 'in', UNFINISHED),
          ),
        ),
      )
      .where((eb) =>
        eb.not(
          eb.exists(
            eb
              .selectFrom('workspace_runs')
              .select('workspace_runs.id')
              .whereRef('workspace_runs.template_version_id', '=', 'version.id')
              .where('workspace_runs.finished_at', 'is', null),
          ),
        ),
      )
      .limit(MOST)
      .execute();
  }

  /** Marks the version first, so that nothing new uses it. Returns whether it was removed. */
  async #remove(id: string, templateId: string): Promise<boolean> {
    const { db, driver, clock, log } = this.#deps;
    const mark = (removedAt: number | null) =>
      db
        .updateTable('custom_template_versions')
        .set({ removed_at: removedAt })
        .where('id', '=', id)
        .where('template_id', '=', templateId)
        .execute();
    await mark(clock.now());
    try {
      if (await this.#isNeededElsewhere(id)) return true;
      await db.deleteFrom('template_steps').where('version_id', '=', id).execute();
      await driver.removeVersion(id);
      return true;
    } catch (error) {
      await mark(null);
      if (!(error instanceof CaptureError)) throw error;
      log.debug({ err: error, templateVersionId: id }, 'a version is still in use');
      return false;
    }
  }

  /** Templates with equal contents have a version with the same id. */
  async #isNeededElsewhere(id: string): Promise<boolean> {
    const query = this.#deps.db.selectFrom('custom_template_versions').select('id').where('id', '=', id);
    return (await query.where('removed_at', 'is', null).executeTakeFirst()) !== undefined;
  }
}

function isOld(eb: Joined, before: number) {
  return eb.and([
    eb('version.built_at', '<', before),
    eb.or([
      eb('template.default_version_id', 'is', null),
      eb('template.default_version_id', '!=', eb.ref('version.id')),
    ]),
    eb.not(eb.exists(sandboxesOf(eb).where('sandboxes.created_at', '>=', before))),
  ]);
}

function sandboxesOf(eb: Joined) {
  return eb.selectFrom('sandboxes').select('sandboxes.id').whereRef('sandboxes.template_version_id', '=', 'version.id');
}
