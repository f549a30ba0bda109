import { ID_PREFIXES, LIMITS, type TemplateBuildId, type TemplateRecipe } from '@cloche/contract';
import { Deadline, orAbort } from '@cloche/node-support';
import { AppError, invalidRequest, notFound } from '../../../platform/base/app-error.ts';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { ListPart } from '../../../platform/db/list-part.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';
import type { ArtifactRepository } from '../../artifacts/artifact-repository.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { checkResources } from '../../sandboxes/lifecycle/create-request.ts';
import { type CustomTemplateRecord, deleted } from '../../template-catalogue/custom/custom-template.ts';
import type { CustomTemplateRepository } from '../../template-catalogue/custom/custom-template-repository.ts';
import { describeStep } from '../../template-catalogue/recipe/describe-step.ts';
import type { Plan } from '../../template-catalogue/recipe/plan.ts';
import { artifactsOf, planRecipe } from '../../template-catalogue/recipe/plan-recipe.ts';
import type { ResolvedVersion } from '../../template-catalogue/template-catalogue.ts';
import type { BuildLog } from '../builds/build-log.ts';
import type { BuildRepository } from '../builds/build-repository.ts';
import type { EndBuild } from '../builds/end-build.ts';
import { type BuildRecord, isFinished, type StepState } from '../builds/template-build.ts';
import type { PlanOrigin } from './plan-origin.ts';

export interface BuildServiceDeps {
  readonly planOrigin: PlanOrigin;
  readonly templates: CustomTemplateRepository;
  readonly builds: BuildRepository;
  readonly buildLog: BuildLog;
  readonly endBuild: EndBuild;
  readonly artifacts: Pick<ArtifactRepository, 'find'>;
  readonly transactions: Transactions;
  readonly changes: Changes<TemplateBuildId>;
  readonly settings: SandboxSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Makes the queue look for builds. */
  readonly wake: () => void;
}

/** A checked recipe and the version that it starts from. */
export interface PlannedBuild {
  readonly plan: Plan;
  readonly from: ResolvedVersion;
}

/** Creates, shows and cancels builds of templates. */
export class BuildService {
  readonly #deps: BuildServiceDeps;

  constructor(deps: BuildServiceDeps) {
    this.#deps = deps;
  }

  /**
   * @throws AppError `invalid_request`, `not_found` for the template that the recipe starts from, for an artifact or for
   *   a secret
   */
  async plan({ credential }: Pick<Call, 'credential'>, recipe: TemplateRecipe): Promise<PlannedBuild> {
    const { planOrigin, settings } = this.#deps;
    const { version, ...base } = await planOrigin.plan(credential, recipe.from);
    const plan = planRecipe(recipe, base, await this.#artifactDigests(credential, recipe));
    const issues: { path: string; message: string }[] = [];
    checkResources({ ...settings.defaultResources, ...recipe.resources }, settings.maxResources, issues);
    const [first, ...others] = issues;
    if (first) throw invalidRequest(first, ...others);
    return { plan, from: version };
  }

  /**
   * Inserts a build. The caller has checked that the key may build the template.
   *
   * @throws AppError `quota_exceeded` when too many builds of the organization have not ended, `not_found` when the
   * template was deleted meanwhile
   */
  async insert(
    template: CustomTemplateRecord,
    { plan, from }: PlannedBuild,
    recordId: string | undefined,
    tx: Transaction,
  ): Promise<BuildRecord> {
    const { templates, builds, buildLog, clock, ids, wake } = this.#deps;
    const { orgId } = template;
    await lockOrganization(tx, orgId);
    // The lock excludes a deletion, which may have come since the caller read the template.
    if ((await templates.find(orgId, template.id, tx))?.deletedAt !== undefined) throw deleted(template);
    const unfinished = await builds.countUnfinished(tx, orgId);
    if (unfinished >= LIMITS.templateBuildsQueued) throw tooMany(unfinished);
    const steps = plan.steps.map((step): StepState => ({ description: describeStep(step), status: 'pending' }));
    const build = {
      id: ids.next(ID_PREFIXES.templateBuild),
      orgId,
      templateId: template.id,
      templateSlug: template.slug,
      fromVersionId: from.version.id,
      steps,
      plan,
      idempotencyRecordId: recordId,
    };
    const inserted = await builds.insert(build, clock.now(), tx);
    // A log exists from its first entry on, so that readers can follow it.
    const note = `The build of "${template.slug}" starts from ${from.version.id}.\n`;
    await buildLog.append(inserted.id, [{ step: 0, stream: 'system', data: note }], tx);
    tx.afterCommit(wake);
    return inserted;
  }

  /** Creates one build per idempotency record. @throws AppError as `plan` and `insert` do */
  async create(
    { idempotency, audit }: Call,
    template: CustomTemplateRecord,
    planned: PlannedBuild,
  ): Promise<BuildRecord> {
    const { builds, transactions } = this.#deps;
    return transactions.run(async (tx) => {
      const earlier = idempotency && (await builds.findByIdempotencyRecord(idempotency.recordId, tx));
      if (earlier) return earlier;
      const build = await this.insert(template, planned, idempotency?.recordId, tx);
      await audit?.append(tx, { id: build.id });
      return build;
    });
  }

  /** Returns a part of the builds of a template, newest first. */
  list({ id }: CustomTemplateRecord, part: ListPart): Promise<BuildRecord[]> {
    return this.#deps.builds.list(id, part);
  }

  /** Returns the build. With `waitMs`, waits until it has ended or the time has passed. @throws AppError `not_found` */
  async get({ signal }: Call, template: CustomTemplateRecord, id: string, waitMs: number): Promise<BuildRecord> {
    const { changes, builds } = this.#deps;
    using limit = new Deadline(waitMs, signal);
    using watch = changes.watch(id as TemplateBuildId);
    for (;;) {
      const changed = watch.next();
      const build = await builds.find(template.orgId, template.id, id);
      if (!build) throw notFound('build', id);
      if (isFinished(build) || limit.signal.aborted) return build;
      await orAbort(changed, limit.signal).catch(() => undefined);
    }
  }

  /** Idempotent: a build that has ended is returned as it is. @throws AppError `not_found` */
  async cancel(call: Call, template: CustomTemplateRecord, id: string): Promise<BuildRecord> {
    const build = await this.#deps.builds.find(template.orgId, template.id, id);
    if (!build) throw notFound('build', id);
    if (!isFinished(build)) await this.#deps.endBuild.cancel(call, build);
    return (await this.#deps.builds.find(template.orgId, template.id, id)) ?? build;
  }

  async #artifactDigests({ orgId, projectIds }: Credential, recipe: TemplateRecipe): Promise<Map<string, string>> {
    const digests = new Map<string, string>();
    for (const { id, path } of artifactsOf(recipe)) {
      const artifact = await this.#deps.artifacts.find(id);
      const isVisible = artifact?.orgId === orgId && (projectIds?.has(artifact.projectId) ?? true);
      if (!artifact || !isVisible || artifact.deletedAt !== undefined) {
        throw invalidRequest({ path, message: 'must be the id of an artifact that this key can see' });
      }
      digests.set(id, artifact.sha256);
    }
    return digests;
  }
}

function tooMany(used: number): AppError {
  const limit = LIMITS.templateBuildsQueued;
  const message = `${used} builds of the organization have not ended, and its limit is ${limit}; wait for some or cancel them.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'template_builds', limit, used } });
}
