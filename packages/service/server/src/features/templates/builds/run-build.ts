import { LIMITS, type TemplateBuildId, type TemplateVersionId } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { CapturedManifest, CapturedVersion } from '@cloche/protocol';
import { type Instances, LaunchError, type Versions } from '@cloche/runtime';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { Transactions } from '../../../platform/db/transactions.ts';
import type { Quotas } from '../../quotas/quotas.ts';
import type { CustomVersionRecord } from '../../template-catalogue/custom/custom-template.ts';
import type { CustomTemplateRepository } from '../../template-catalogue/custom/custom-template-repository.ts';
import type { Plan } from '../../template-catalogue/recipe/plan.ts';
import { stepKeys, versionKey } from '../../template-catalogue/recipe/step-keys.ts';
import { type BuildFailedError, baseLost, explain, timedOut } from './build-failure.ts';
import type { BuildLog } from './build-log.ts';
import { BuildOutput } from './build-output.ts';
import type { BuildPlace } from './build-place.ts';
import { BuildEndedError, BuildProgress } from './build-progress.ts';
import type { BuildRepository } from './build-repository.ts';
import type { BuildSandbox } from './build-sandbox.ts';
import type { EndBuild } from './end-build.ts';
import { type ExpectLaunchesDeps, expectLaunches } from './expect-launches.ts';
import { holdBuild } from './hold-build.ts';
import { NotLaunchedError, type RunSteps, resultOf, type StepsRun, VersionLostError, withImage } from './run-steps.ts';
import type { CachedStep, StepCache } from './step-cache.ts';
import { type BuildFailure, type BuildRecord, isFinished } from './template-build.ts';

/** Most attempts that follow a fault of the service. */
const MOST_FAILURES = 3;
const RETRY_MS = 2_000;

export interface RunBuildDeps extends ExpectLaunchesDeps {
  readonly builds: BuildRepository;
  readonly templates: CustomTemplateRepository;
  readonly cache: StepCache;
  readonly runSteps: RunSteps;
  readonly buildSandbox: BuildSandbox;
  readonly endBuild: EndBuild;
  readonly claims: ClaimedRows;
  readonly driver: Pick<Instances, 'templateVersions' | 'expectLaunch'>;
  readonly versions: Pick<Versions, 'deriveVersion'>;
  readonly buildLog: BuildLog;
  readonly quotas: Quotas;
  readonly transactions: Transactions;
  readonly changes: Changes<TemplateBuildId>;
  readonly clock: Clock;
}

/** The place of a build among those that a server runs at once. */
export interface BuildTurn {
  readonly claim: string;
  /** When the claim was sent, by `performance.now()`. */
  readonly claimedAt: number;
  readonly place: BuildPlace;
}

/**
 * Runs a build that this process has claimed, from its beginning or from the last step that an earlier process
 * completed.
 */
export class RunBuild {
  readonly #deps: RunBuildDeps;

  constructor(deps: RunBuildDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when the build has ended and its sandbox is destroyed, or when the build has to wait. Rejects when
   * `stopped` aborts, or when the host does not answer. The caller must then keep the claim, so that the build is
   * retried later.
   */
  async run(build: BuildRecord, turn: BuildTurn, stopped: AbortSignal): Promise<void> {
    const { buildSandbox } = this.#deps;
    // An earlier process may have left a sandbox behind.
    await buildSandbox.destroy(build);
    if (isFinished(build)) return;
    const begun = await this.#begin(build, turn.claim);
    if (!begun) return;
    const progress = new BuildProgress(this.#deps.builds, begun, turn.claim);
    try {
      await this.#runInTime(progress, turn, stopped);
    } finally {
      await buildSandbox.destroy(progress.build);
    }
  }

  /** Marks a build as running, unless the organization has the maximum number of running builds. */
  #begin(build: BuildRecord, claim: string): Promise<BuildRecord | undefined> {
    const { builds, transactions, clock } = this.#deps;
    return transactions.run(async (tx) => {
      const running = await builds.countRunning(tx, build.orgId, build.id);
      if (running >= LIMITS.templateBuildsAtOnce) return undefined;
      return builds.begin(build, claim, clock.now(), tx);
    });
  }

  async #runInTime(progress: BuildProgress, turn: BuildTurn, stopped: AbortSignal): Promise<void> {
    const { buildLog, clock } = this.#deps;
    const { claim, claimedAt, place } = turn;
    const { id, startedAt = clock.now() } = progress.build;
    using deadline = new Deadline(startedAt + LIMITS.templateBuildMs - clock.now(), stopped);
    await using output = new BuildOutput(buildLog, id);
    const ended = new AbortController();
    const watching = holdBuild(this.#deps, { id, claim, claimedAt }, deadline, ended.signal);
    try {
      const version = await this.#make({ progress, output, place, signal: deadline.signal });
      await output.flush();
      await expectLaunches(this.#deps, version, deadline.signal);
      await this.#succeed(progress, version);
    } catch (error) {
      stopped.throwIfAborted();
      if (deadline.endedBy === 'canceled' || error instanceof BuildEndedError) return;
      await this.#fail(progress, error, deadline, output);
    } finally {
      ended.abort();
      await watching;
    }
  }

  async #make(making: Pick<StepsRun, 'progress' | 'output' | 'place' | 'signal'>): Promise<CustomVersionRecord> {
    const { progress, signal } = making;
    const { builds, templates, cache, clock } = this.#deps;
    const { id, orgId, templateId, fromVersionId, steps } = progress.build;
    const stored = await builds.planOf(id);
    const isImage = stored.steps[0]?.kind === 'image';
    const plan = isImage ? await this.#resolved(stored, making) : stored;
    const key = versionKey(templateId, fromVersionId, plan);
    const made = await cache.findLast(orgId, [key], clock.now());
    const existing = made && (await templates.findVersion(orgId, made.step.versionId, templateId));
    if (existing && (await this.#recapture(existing, signal))) {
      await progress.set(0, steps.length, 'cached');
      return existing;
    }
    const { from, manifest } = await this.#fromVersion(progress.build);
    const { env, languages, resources } = plan.settings;
    const ofSteps = {
      ...(isImage ? {} : manifest),
      languages: [...languages],
      env: { ...(!isImage && manifest.env), ...env },
    };
    const keys = stepKeys(fromVersionId, plan);
    const run = { orgId, plan, keys, manifest: ofSteps, from, ...making };
    const { last, derived } = await this.#runAndDerive(run);
    const result: CachedStep = {
      ...resultOf(derived, last.versionId),
      packages: last.packages,
      imageEnv: last.imageEnv,
    };
    await cache.save(orgId, key, result, clock.now());
    const builtAt = clock.now();
    return {
      id: result.versionId,
      orgId,
      templateId,
      buildId: id,
      fromVersionId,
      version: `${new Date(builtAt).toISOString().slice(0, 10).replaceAll('-', '.')}-${derived.digest.slice(0, 8)}`,
      digest: derived.digest,
      languages,
      manifest: derived.manifest,
      packages: last.packages ?? {},
      resources,
      layers: result.layers,
      sizeBytes: result.sizeBytes,
      builtAt,
    };
  }

  async #resolved(plan: Plan, making: Pick<StepsRun, 'progress' | 'output' | 'place' | 'signal'>): Promise<Plan> {
    const { build } = making.progress;
    const { from } = await this.#fromVersion(build);
    return this.#deps.runSteps.resolved({ orgId: build.orgId, plan, from, ...making });
  }

  /** Runs the steps and makes the version. If the host has lost the results of steps, these run again. */
  async #runAndDerive(run: StepsRun): Promise<{ readonly last: CachedStep; readonly derived: CapturedVersion }> {
    const { runSteps, cache } = this.#deps;
    const { imports } = run.plan.settings;
    for (let left = run.keys.length; ; left -= 1) {
      try {
        const last = await runSteps.run(run);
        const ofLast = withImage(run.manifest, last.imageEnv);
        const manifest = imports.length > 0 ? { ...ofLast, warm: { imports: [...imports] } } : ofLast;
        return { last, derived: await this.#derive(last.versionId, manifest, run.signal) };
      } catch (error) {
        if (!(error instanceof VersionLostError)) throw error;
        if (error.versionId === run.from.versionId) throw baseLost(error.versionId);
        await cache.forget(run.orgId, error.versionId);
        if (left === 0) throw error;
      }
    }
  }

  async #derive(from: TemplateVersionId, manifest: CapturedManifest, signal: AbortSignal): Promise<CapturedVersion> {
    try {
      return await this.#deps.versions.deriveVersion({ from, purpose: 'version', manifest }, signal);
    } catch (error) {
      if (!(error instanceof LaunchError && error.kind === 'template_not_found')) throw error;
      throw new VersionLostError(from, { cause: error });
    }
  }

  /**
   * Makes a version again, so that a removal under way does not delete its files. Returns false if the host has lost
   * them.
   */
  async #recapture({ id, manifest }: CustomVersionRecord, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#derive(id, manifest, signal);
      return true;
    } catch (error) {
      if (error instanceof VersionLostError) return false;
      throw error;
    }
  }

  /** Returns the version that the recipe starts from, with its manifest. */
  async #fromVersion({ orgId, fromVersionId }: BuildRecord): Promise<{ from: CachedStep; manifest: CapturedManifest }> {
    const { templates, driver } = this.#deps;
    const custom = await templates.findVersion(orgId, fromVersionId);
    if (custom) {
      // A version does not inherit warm imports.
      const { warm: _, ...manifest } = custom.manifest;
      const { id, fromVersionId: below, layers, sizeBytes, packages } = custom;
      return {
        from: { versionId: id, fromVersionId: below, layers, sizeBytes, packages, imageEnv: undefined },
        manifest,
      };
    }
    const curated = (await driver.templateVersions()).find(({ id }) => id === fromVersionId);
    if (!curated) throw baseLost(fromVersionId);
    const versionId = curated.id as TemplateVersionId;
    const from = {
      versionId,
      fromVersionId: versionId,
      layers: 0,
      sizeBytes: 0,
      packages: curated.packages,
      imageEnv: undefined,
    };
    return { from, manifest: { languages: [...curated.languages], ...(curated.env && { env: curated.env }) } };
  }

  async #succeed({ build, claim }: BuildProgress, version: CustomVersionRecord): Promise<void> {
    const { endBuild, templates, quotas } = this.#deps;
    const { orgId } = build;
    await quotas.admit({ orgId }, async (tx, requireRoom) => {
      if (version.buildId === build.id) await requireRoom({ templateBytes: version.sizeBytes });
      await endBuild.end(
        build,
        { status: 'succeeded', templateVersionId: version.id },
        { claim, alsoWrite: (joined) => templates.addVersion(version, joined), joined: tx },
      );
    });
  }

  /**
   * Records a failure. After a fault of the service, the build is retried a few times instead. A failure is not recorded
   * without the claim: a server that takes the build over destroys its sandbox, which makes the running step fail here.
   */
  async #fail(progress: BuildProgress, error: unknown, deadline: Deadline, output: BuildOutput): Promise<void> {
    const { build, claim } = progress;
    const { builds, endBuild, clock, log } = this.#deps;
    const known = explain(error);
    const waited = known?.code === 'no_capacity';
    if (deadline.endedBy === 'timeout' && !waited) return this.#failWith(progress, timedOut(), output);
    if (known) return this.#failWith(progress, known.failure, output);
    log.warn({ err: error, buildId: build.id }, 'a build was interrupted');
    if (build.failures < MOST_FAILURES) {
      await builds.postpone(build, claim, clock.now() + RETRY_MS);
      return;
    }
    await endBuild.end(build, { status: 'failed', error: lastFault(error) }, { claim });
  }

  async #failWith(
    { build, claim }: BuildProgress,
    error: BuildFailedError['failure'],
    output: BuildOutput,
  ): Promise<void> {
    await output.flush();
    const steps = build.steps.map((step, index) =>
      index + 1 === error.step ? { ...step, status: 'failed' as const } : step,
    );
    await this.#deps.builds.update(build.id, claim, { steps });
    await this.#deps.endBuild.end(build, { status: 'failed', error }, { claim });
  }
}

/** Returns the failure of a build whose every attempt met a fault of the service, the last one `error`. */
function lastFault(error: unknown): BuildFailure {
  if (error instanceof NotLaunchedError) return { code: 'not_launched', message: error.message };
  if (error instanceof VersionLostError) {
    const message = `The host removed ${error.versionId}, which a step of this build made, in every attempt. Build again.`;
    return { code: 'conflict', message };
  }
  return { code: 'internal', message: 'The service failed several times. Build again.' };
}
