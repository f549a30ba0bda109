import { formatImageName, type OrgId, type SecretId, type TemplateVersionId } from '@cloche/contract';
import { BackOff, pause } from '@cloche/node-support';
import { type CapturedManifest, type CapturedVersion, MAX_LAYERS } from '@cloche/protocol';
import { LaunchError, type Versions } from '@cloche/runtime';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Quotas } from '../../quotas/quotas.ts';
import type { ReadySandbox, SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import type { Plan, PlannedStep } from '../../template-catalogue/recipe/plan.ts';
import { BuildFailedError, baseLost, explain } from './build-failure.ts';
import type { BuildOutput } from './build-output.ts';
import type { BuildPlace } from './build-place.ts';
import type { BuildProgress } from './build-progress.ts';
import type { BuildSandbox } from './build-sandbox.ts';
import type { RunStep } from './run-step.ts';
import type { CachedStep, StepCache } from './step-cache.ts';
import { secretsOf } from './unpack-image.ts';

/** Pause before a sandbox that a quota refused is requested again. */
const QUOTA_MS = 2_000;
/** Pauses before another sandbox is requested while no host has room. */
const CAPACITY_PAUSES = { firstMs: 1_000, longestMs: 15_000 };

export interface RunStepsDeps {
  readonly versions: Pick<Versions, 'capture'>;
  readonly buildSandbox: BuildSandbox;
  readonly sandboxUse: SandboxUse;
  readonly runStep: RunStep;
  readonly cache: StepCache;
  readonly quotas: Pick<Quotas, 'room'>;
  readonly clock: Clock;
}

/** The state from which the steps of a build start, and the sandboxes in which they run. */
export interface StepsRun {
  readonly orgId: OrgId;
  readonly plan: Plan;
  /** Keys of the steps, in order. */
  readonly keys: readonly string[];
  /** Manifest of the versions that steps make. */
  readonly manifest: CapturedManifest;
  /** The version that the recipe starts from. */
  readonly from: CachedStep;
  readonly progress: BuildProgress;
  readonly output: BuildOutput;
  /** The build leaves it while no room is left for its sandbox. */
  readonly place: BuildPlace;
  readonly signal: AbortSignal;
}

/**
 * Runs the steps of a build whose results are not cached. Each step runs in a new sandbox, launched from the result of
 * the previous step, so only files pass from one step to the next.
 */
export class RunSteps {
  readonly #deps: RunStepsDeps;

  constructor(deps: RunStepsDeps) {
    this.#deps = deps;
  }

  /** Returns the result of the last step. @throws BuildFailedError, VersionLostError, AppError, CaptureError */
  async run(run: StepsRun): Promise<CachedStep> {
    const { cache, clock } = this.#deps;
    const { orgId, plan, keys, from, progress, output } = run;
    const cached = await cache.findLast(orgId, keys, clock.now());
    let last = cached?.step ?? from;
    let next = (cached?.index ?? -1) + 1;
    await progress.set(0, next, 'cached');
    // An interrupted attempt may have begun further steps.
    await progress.set(next, plan.steps.length, 'pending');
    for (let number = 1; number <= next; number += 1) await output.note(number, `Step ${number}: cached\n`);
    while (next < plan.steps.length) {
      // If only one layer is left, all remaining steps run in one sandbox and share that layer.
      const end = last.layers + 1 < MAX_LAYERS ? next + 1 : plan.steps.length;
      if (last.layers >= MAX_LAYERS) throw tooManyLayers();
      last = await this.#runGroup(run, last, next, end);
      await cache.save(orgId, keys[end - 1] ?? '', last, clock.now());
      next = end;
    }
    const hasRun = next > (cached?.index ?? -1) + 1 && plan.steps.at(-1)?.kind !== 'image';
    const isInspected = last.packages && (hasRun || plan.settings.imports.length === 0);
    // The Python of an image may lack what contexts need.
    const isOfImage = plan.steps[0]?.kind === 'image';
    return isInspected && !isOfImage ? last : this.#inspected(run, last, { hasNotedImports: hasRun });
  }

  /**
   * Returns the plan with the digest that the tag of its image has now. Without an image, or with a digest, returns the
   * plan as it is. @throws as `run` does
   */
  async resolved(run: Omit<StepsRun, 'keys' | 'manifest'>): Promise<Plan> {
    const { plan, progress, output, signal } = run;
    const [step, ...others] = plan.steps;
    const buildId = progress.build.id;
    if (step?.kind !== 'image' || !('pull' in step) || step.pull.digest !== undefined) return plan;
    await progress.set(0, 1, 'running');
    try {
      const sandbox = await this.#launch(unpacking(run), run.from, 1, secretsOf(step.pull));
      const digest = await this.#deps.runStep.resolveImage(step.pull, { buildId, sandbox, number: 1, output, signal });
      await this.#deps.buildSandbox.destroy(progress.build);
      const image = { ...step.pull, digest };
      await output.note(1, `The image is ${formatImageName(image)}\n`);
      return { ...plan, steps: [{ kind: 'image', pull: image }, ...others] };
    } catch (error) {
      throw error instanceof VersionLostError ? baseLost(error.versionId) : (explain(error, 1) ?? error);
    }
  }

  /** Runs steps in one sandbox and captures it. */
  async #runGroup(run: StepsRun, below: CachedStep, first: number, end: number): Promise<CachedStep> {
    const { versions, runStep } = this.#deps;
    const { plan, progress, output, signal } = run;
    const step = plan.steps[first];
    const buildId = progress.build.id;
    const isImage = step?.kind === 'image';
    let imageEnv = below.imageEnv;
    const secrets = step?.kind === 'image' && 'pull' in step ? secretsOf(step.pull) : undefined;
    const sandbox = await this.#launch(isImage ? unpacking(run) : run, below, first + 1, secrets);
    for (let index = first; index < end; index += 1) {
      const number = index + 1;
      await progress.set(index, number, 'running');
      await output.note(
        number,
        `Step ${number} of ${plan.steps.length}: ${progress.build.steps[index]?.description}\n`,
      );
      try {
        // Sound: `index` is below the number of steps.
        const result = await runStep.run(plan.steps[index] as PlannedStep, {
          buildId,
          sandbox,
          number,
          output,
          signal,
        });
        imageEnv = result.imageEnv ?? imageEnv;
      } catch (error) {
        throw explain(error, number) ?? error;
      }
    }
    // After an image was unpacked, the package managers here still describe the sandbox and not the image.
    const packages = isImage ? undefined : await runStep.listPackages({ sandbox, signal });
    if (!isImage && end === plan.steps.length) await this.#noteImports(run, sandbox);
    const manifest = withImage(run.manifest, imageEnv);
    let captured: CapturedVersion;
    try {
      captured = await versions.capture(
        { sandboxId: sandbox.id, generation: sandbox.generation },
        {
          root: isImage ? 'image' : 'changes',
          purpose: 'snapshot',
          manifest,
          ...(await this.#bound(run.orgId, below)),
        },
        signal,
      );
    } catch (error) {
      if (error instanceof LaunchError && error.kind === 'template_not_found')
        throw new VersionLostError(below.versionId, { cause: error });
      throw explain(error, end) ?? error;
    }
    await this.#deps.buildSandbox.destroy(progress.build);
    await progress.set(first, end, 'succeeded');
    return { ...resultOf(captured, below.versionId), packages, imageEnv };
  }

  /** Returns the space that the organization's quota leaves for the next layer, so that a larger one is not copied. */
  async #bound(orgId: OrgId, { sizeBytes }: CachedStep): Promise<{ maxBytes?: number }> {
    const room = await this.#deps.quotas.room('templateBytes', orgId);
    return room === undefined ? {} : { maxBytes: Math.max(1, Math.floor(room - sizeBytes)) };
  }

  /** Lists the packages of a version, loads the modules that its sandboxes will load ahead, and starts its Python. */
  async #inspected(
    run: StepsRun,
    last: CachedStep,
    { hasNotedImports }: { readonly hasNotedImports: boolean },
  ): Promise<CachedStep> {
    const sandbox = await this.#launch(run, last, 0);
    const { signal } = run;
    const packages = last.packages ?? (await this.#deps.runStep.listPackages({ sandbox, signal }));
    if (!hasNotedImports) await this.#noteImports(run, sandbox);
    await this.#notePython(run, sandbox);
    await this.#deps.buildSandbox.destroy(run.progress.build);
    return { ...last, packages: packages ?? {} };
  }

  /** Writes to the build's log if the version will run without its warm imports. */
  async #noteImports({ plan, output, signal }: StepsRun, sandbox: ReadySandbox): Promise<void> {
    const { imports } = plan.settings;
    const why = imports.length > 0 && (await this.#deps.runStep.importFailure(imports, { sandbox, signal }));
    if (!why) return;
    const note = `warm.imports have no effect, because they cannot be loaded ahead: ${why}\n`;
    await output.note(plan.steps.length, note);
  }

  /** Writes to the build's log if no context of the version will have Python. */
  async #notePython({ plan, output, signal }: StepsRun, sandbox: ReadySandbox): Promise<void> {
    if (!plan.settings.languages.includes('python')) return;
    const why = await this.#deps.runStep.pythonFailure({ sandbox, signal });
    if (why) await output.note(plan.steps.length, `Python will run no code in this version: ${why}\n`);
  }

  /** Creates a sandbox from a version. Waits while a quota or the host has no room. */
  async #launch(
    run: Omit<StepsRun, 'keys' | 'manifest'>,
    { versionId }: CachedStep,
    number: number,
    secrets?: Readonly<Record<string, SecretId>>,
  ): Promise<ReadySandbox> {
    const { buildSandbox, sandboxUse, cache } = this.#deps;
    const { orgId, plan, progress, output, place, signal } = run;
    const capacityPauses = new BackOff(CAPACITY_PAUSES);
    let noRoom: AppError | undefined;
    for (let waits = false; ; waits = true) {
      if (noRoom && signal.aborted) throw noCapacity(number, noRoom);
      signal.throwIfAborted();
      await progress.beginLaunch();
      try {
        const sandbox = await buildSandbox.create(progress, { versionId, plan, secrets }, signal);
        await progress.setSandbox(sandbox.id);
        return await sandboxUse.ready(sandbox, { signal });
      } catch (error) {
        if (noRoom && signal.aborted) continue;
        if (!(error instanceof AppError)) throw error;
        if (secrets && error.code === 'not_found') throw new BuildFailedError('not_launched', error.message, number);
        if (error.code === 'quota_exceeded' || error.code === 'rate_limited') {
          if (!waits) await output.note(number, `The build waits: ${error.message}\n`);
          await place.leaveDuring(() => pause(QUOTA_MS, signal), signal);
          continue;
        }
        const kind = error.code === 'sandbox_failed' ? await buildSandbox.failureKind(progress.build) : undefined;
        if (kind === 'no_capacity') {
          if (!waits) await output.note(number, 'The build waits: no host has room for its sandbox.\n');
          noRoom = error;
          await place.leaveDuring(() => capacityPauses.pause(signal), signal);
          continue;
        }
        if (kind === 'no_version') throw new VersionLostError(versionId, { cause: error });
        // The version may be the cause of the failed launch. Without its cache entry, a further attempt runs the
        // earlier steps again.
        await cache.forget(orgId, versionId);
        if (error.code === 'sandbox_failed') throw new NotLaunchedError(error.message, { cause: error });
        throw error;
      }
    }
  }
}

/** Returns the run without the environment of the recipe, which is for the image and not for what unpacks it. */
function unpacking<Run extends Pick<StepsRun, 'plan'>>(run: Run): Run {
  return { ...run, plan: { ...run.plan, settings: { ...run.plan.settings, env: {} } } };
}

/** The host has lost a version that is the result of a cached step. */
export class VersionLostError extends Error {
  override readonly name = 'VersionLostError';
  readonly versionId: TemplateVersionId;

  constructor(versionId: TemplateVersionId, options: ErrorOptions) {
    super(`the host has lost the version ${versionId}`, options);
    this.versionId = versionId;
  }
}

/** The launch of a build's sandbox failed. */
export class NotLaunchedError extends Error {
  override readonly name = 'NotLaunchedError';
}

/** Returns the manifest with the variables of the image, which those of the recipe replace. */
export function withImage(manifest: CapturedManifest, imageEnv: CachedStep['imageEnv']): CapturedManifest {
  return imageEnv ? { ...manifest, env: { ...imageEnv, ...manifest.env } } : manifest;
}

/** Returns what a capture made. Its size is that of all its layers. */
export function resultOf(
  captured: CapturedVersion,
  fromVersionId: TemplateVersionId,
): Omit<CachedStep, 'packages' | 'imageEnv'> {
  return {
    // The runtime assigns ids; its driver checks their prefix.
    versionId: captured.id as TemplateVersionId,
    fromVersionId,
    layers: captured.layers.length,
    sizeBytes: captured.layers.reduce((bytes, layer) => bytes + layer.bytes, 0),
  };
}

function noCapacity(step: number, { message }: AppError): BuildFailedError {
  return new BuildFailedError('no_capacity', message, step || undefined);
}

function tooManyLayers(): BuildFailedError {
  const message = `The version has ${MAX_LAYERS} layers, as many as a version may have; start from an earlier one.`;
  return new BuildFailedError('too_large', message);
}
