import { LIMITS } from '@cloche/contract';
import type { CapturedVersionRef } from '@cloche/protocol';
import { CaptureError, type Versions } from '@cloche/runtime';
import type { ExpressionBuilder } from 'kysely';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Database, Tables } from '../../../platform/db/database.ts';
import type { Transactions } from '../../../platform/db/transactions.ts';
import { sandboxThat } from '../../sandbox-status/status-facts.ts';
import { lockTemplate } from '../../template-catalogue/custom/custom-template-repository.ts';
import { UNFINISHED } from './template-build.ts';

/** Most versions that one sweep marks as removed, and most that it removes from the host. */
const MOST = 500;
/** Age of a version from which no running build can still add it to a template: twice the longest build. */
const ADDED_MS = 2 * LIMITS.templateBuildMs;

export interface RemoveVersionsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly versions: Pick<Versions, 'capturedVersionRefs' | 'removeVersion'>;
  readonly clock: Clock;
  readonly log: Logger;
}

type Version = Tables['custom_template_versions'];
type Joined = ExpressionBuilder<
  Tables & { version: Version; template: Tables['custom_templates'] },
  'version' | 'template'
>;

/**
 * Removes results of builds that nothing needs any more. A version is removed if no sandbox runs on it, no other
 * version is based on it, and no build or workspace run refers to it. A version that is not the default of its template
 * must also have been unused for a time. The versions of a deleted template are removed at once.
 *
 * A version is first marked as removed, so that nothing new uses it. Its files are removed afterwards: in this sweep,
 * or in a later one of any server if the host does not answer or refuses, or if this server ends.
 */
export class RemoveVersions {
  readonly #deps: RemoveVersionsDeps;

  constructor(deps: RemoveVersionsDeps) {
    this.#deps = deps;
  }

  /** Removes what was last used before `before`. Returns the number of versions whose files were removed. */
  async sweep(before: number): Promise<number> {
    const { db } = this.#deps;
    await db.deleteFrom('template_builds').where('finished_at', '<', before).where('claimed_by', 'is', null).execute();
    const found = await unneeded(db, before).limit(MOST).execute();
    for (const { id, template_id: templateId } of found) await this.#mark(id, templateId, before);
    const count = await this.#removeFiles(before);
    // Done last, because the steps name versions that belong to no template.
    await db.deleteFrom('template_steps').where('used_at', '<', before).execute();
    return count;
  }

  /** Marks a version unless something has begun to need it. */
  async #mark(id: string, templateId: string, before: number): Promise<void> {
    const { transactions, clock } = this.#deps;
    await transactions.run(async (tx) => {
      const { db } = tx;
      // A build that adds the version, and a client that makes it the default, lock the template first.
      await lockTemplate(tx, templateId);
      const same = unneeded(db, before).where('version.id', '=', id).where('template.id', '=', templateId);
      if (!(await same.executeTakeFirst())) return;
      const update = db.updateTable('custom_template_versions').set({ removed_at: clock.now() });
      await update.where('id', '=', id).where('template_id', '=', templateId).execute();
    });
  }

  /**
   * Removes versions from the host that belong to no template: versions marked as removed, versions of builds that ended
   * before they could add them, and old versions that the database does not know, because their removal was refused when
   * their cached steps were deleted. Templates with equal contents have a version with the same id, and a build may
   * make that version again at any time. So the time of making is first read from the host. The host then refuses to
   * remove a version that it has made again since, however late the request arrives.
   */
  async #removeFiles(before: number): Promise<number> {
    const { versions, clock, db } = this.#deps;
    const lookedAt = clock.now();
    const made = await versions.capturedVersionRefs();
    // The running builds are read before the versions of templates. A build that ends in between has already added its
    // versions, or makes them again later.
    await this.#forgetRemoved(made, before);
    const builds = db.selectFrom('template_builds').select('id').where('status', 'in', UNFINISHED).limit(1);
    const isBuilding = (await builds.executeTakeFirst()) !== undefined;
    const { live, known } = await this.#rowsOf(made.map(({ id }) => id));
    const added = clock.now() - ADDED_MS;
    const isRemovable = ({ id, madeAt }: CapturedVersionRef) =>
      !live.has(id) && (known.has(id) ? !isBuilding || madeAt <= added : madeAt <= added && madeAt < before);
    const left = made.filter(isRemovable).slice(0, MOST);
    let count = 0;
    for (const version of left) {
      if (!(await this.#removeFromHost(version))) continue;
      count += 1;
      const steps = db.deleteFrom('template_steps').where('version_id', '=', version.id);
      await steps.where('used_at', '<', lookedAt).execute();
    }
    return count;
  }

  /** Returns those of the ids that the database has, and those among them that are versions of a template. */
  async #rowsOf(ids: readonly string[]): Promise<{ readonly live: Set<string>; readonly known: Set<string> }> {
    const { db } = this.#deps;
    const live = new Set<string>();
    const known = new Set<string>();
    for (let from = 0; from < ids.length; from += MOST) {
      const some = ids.slice(from, from + MOST);
      const versions = db.selectFrom('custom_template_versions').where('id', 'in', some);
      // The versions are read last: a build saves the cached step before it adds the version.
      const steps = db.selectFrom('template_steps').select('version_id').where('version_id', 'in', some).distinct();
      for (const { version_id: id } of await steps.execute()) known.add(id);
      for (const { id, removed_at: removedAt } of await versions.select(['id', 'removed_at']).execute()) {
        known.add(id);
        if (removedAt === null) live.add(id);
      }
    }
    return { live, known };
  }

  /** Deletes the rows of versions that were removed before `before` and whose files the host no longer has. */
  async #forgetRemoved(made: readonly CapturedVersionRef[], before: number): Promise<void> {
    const kept = new Set<string>(made.map(({ id }) => id));
    const { db } = this.#deps;
    const query = db.selectFrom('custom_template_versions').select('id').where('removed_at', '<', before);
    for (const { id } of (await query.limit(MOST).execute()).filter((row) => !kept.has(row.id))) {
      await db.deleteFrom('custom_template_versions').where('id', '=', id).where('removed_at', '<', before).execute();
    }
  }

  async #removeFromHost(version: CapturedVersionRef): Promise<boolean> {
    try {
      await this.#deps.versions.removeVersion(version);
      return true;
    } catch (error) {
      if (!(error instanceof CaptureError)) throw error;
      this.#deps.log.debug({ err: error, templateVersionId: version.id }, 'a version is still in use');
      return false;
    }
  }
}

/** Selects the versions that nothing needs. */
function unneeded(db: Database, before: number) {
  return db
    .selectFrom('custom_template_versions as version')
    .innerJoin('custom_templates as template', 'template.id', 'version.template_id')
    .select(['version.id', 'version.template_id'])
    .where('version.removed_at', 'is', null)
    .where((eb) => eb.or([eb('template.deleted_at', 'is not', null), isOld(eb, before)]))
    .where((eb) => eb.not(eb.exists(sandboxesOf(eb).where(sandboxThat('keepsProject')))))
    .where((eb) => eb.not(eb.exists(versionsFrom(eb))))
    .where((eb) => eb.not(eb.exists(unfinishedBuildsFrom(eb))))
    .where((eb) => eb.not(eb.exists(unfinishedRunsOf(eb))));
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

function versionsFrom(eb: Joined) {
  return eb
    .selectFrom('custom_template_versions as above')
    .select('above.id')
    .whereRef('above.from_version_id', '=', 'version.id')
    .where('above.removed_at', 'is', null);
}

function unfinishedBuildsFrom(eb: Joined) {
  return eb
    .selectFrom('template_builds')
    .select('template_builds.id')
    .whereRef('template_builds.from_version_id', '=', 'version.id')
    .where('template_builds.status', 'in', UNFINISHED);
}

function unfinishedRunsOf(eb: Joined) {
  return eb
    .selectFrom('workspace_runs')
    .select('workspace_runs.id')
    .whereRef('workspace_runs.template_version_id', '=', 'version.id')
    .where('workspace_runs.finished_at', 'is', null);
}
