import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { DEFAULT_CWD, LIMITS, type TemplateBuildId } from '@cloche/contract';
import { jsonBytes } from '@cloche/node-support';
import type { AgentCommand } from '@cloche/protocol';
import { type AgentClient, AgentError, FileError, type Metering } from '@cloche/runtime';
import type { IdSource } from '../../../platform/base/id-source.ts';
import { ENTRY_OVERHEAD_BYTES } from '../../../platform/sequence-log/sequence-log.ts';
import type { ArtifactContents } from '../../artifacts/artifact-contents.ts';
import type { ArtifactRepository } from '../../artifacts/artifact-repository.ts';
import type { ReadySandbox, SandboxUse } from '../../sandboxes/use/sandbox-use.ts';
import { describeStep } from '../../template-catalogue/recipe/describe-step.ts';
import type { PlannedFile, PlannedPull, PlannedStep } from '../../template-catalogue/recipe/plan.ts';
import type { LayerBlob } from '../layers/image-layer-repository.ts';
import type { ImageLayers } from '../layers/image-layers.ts';
import { BuildFailedError, diskFull, failureOf } from './build-failure.ts';
import type { BuildOutput } from './build-output.ts';
import {
  type InstalledPackages,
  LIST_PACKAGES,
  LISTED_BYTES,
  LISTING_MS,
  parseInstalledPackages,
} from './installed-packages.ts';
import { layerPlace } from './layer-place.ts';
import { type StepCommand, stepCommand } from './step-command.ts';
import {
  ARCHIVE,
  forwardErrors,
  IMAGE_ROOT,
  type InspectedImage,
  NOTES_BYTES,
  parseUnpacked,
  pullRequest,
  REQUEST,
  UNPACK,
  UNPACKED_BYTES,
} from './unpack-image.ts';
import { IMPORTING_MS, IMPORTS_BYTES, importCommand, importFailure } from './warm-imports.ts';

/** Used share of the disk, or of its inodes, from which a full disk is assumed to be the cause of a failed step. */
const FULL = 0.98;
/** Most bytes of the line that says how much of an output was cut. */
const NOTICE_BYTES = 1024;

/** Longest start of an interpreter that is looked at. */
const STARTING_MS = 30_000;
const LONGEST_REASON = 500;
/** Errors of a context that do not say that its interpreter will never start. */
const PASSING: readonly AgentError['kind'][] = ['kernel_failed', 'process_limit', 'timeout'];

type ImageStep = Extract<PlannedStep, { kind: 'image' }>;

export interface RunStepDeps {
  readonly sandboxUse: SandboxUse;
  readonly artifacts: Pick<ArtifactRepository, 'find'>;
  readonly contents: Pick<ArtifactContents, 'read'>;
  readonly metering: Pick<Metering, 'measure'>;
  readonly ids: IdSource;
  readonly imageLayers: Pick<ImageLayers, 'bring'>;
}

/** State, besides files, that a step passes on to later steps. */
export interface StepResult {
  /** Variables of the image that the step unpacked. */
  readonly imageEnv?: Readonly<Record<string, string>>;
}

/** Where a step runs, and where its output goes. */
export interface StepRun {
  readonly buildId: TemplateBuildId;
  readonly sandbox: ReadySandbox;
  /** Number of the step, from 1. */
  readonly number: number;
  readonly output: BuildOutput;
  readonly signal: AbortSignal;
}

/** Runs one step in a sandbox, through its agent. */
export class RunStep {
  readonly #deps: RunStepDeps;

  constructor(deps: RunStepDeps) {
    this.#deps = deps;
  }

  /** @throws BuildFailedError when the step fails; AppError when the sandbox or the host does */
  async run(step: PlannedStep, run: StepRun): Promise<StepResult> {
    const { sandbox, number, signal } = run;
    return this.#deps.sandboxUse.act(sandbox, { signal }, async (agent) => {
      if (step.kind === 'files') return this.#writeFiles(step.files, agent, run);
      if (step.kind === 'image') return this.#unpackImage(step, agent, run);
      const ended = await this.#follow(stepCommand(step), agent, run);
      const failure = failureOf(ended, describeStep(step), number);
      if (failure) throw (await this.#diskFailure(run)) ?? failure;
      return {};
    });
  }

  /** Returns the digest that an image has in its registry now. @throws BuildFailedError */
  async resolveImage(image: PlannedPull, run: StepRun): Promise<string> {
    return this.#deps.sandboxUse.act(run.sandbox, { signal: run.signal }, async (agent) => {
      await this.#writeFiles([requestFile(image)], agent, run);
      const { digest } = await this.#runUnpack(['resolve', REQUEST], run);
      if (digest === undefined) throw new BuildFailedError('step_failed', 'The registry names no digest.', run.number);
      return digest;
    });
  }

  /** Returns the digest and the settings of an image of a registry. @throws BuildFailedError */
  async inspectImage(image: PlannedPull, at: Pick<StepRun, 'sandbox' | 'signal'>): Promise<InspectedImage> {
    return this.#deps.sandboxUse.act(at.sandbox, { signal: at.signal }, async (agent) => {
      await this.#writeFiles([requestFile(image)], agent, { ...at, number: 1 });
      const { stdout } = await this.#ask([...UNPACK, 'inspect', REQUEST], { stdoutBytes: UNPACKED_BYTES }, at);
      const { digest, env, settings, message } = parseUnpacked(stdout);
      if (digest !== undefined && env && settings) return { digest, env, ...settings };
      throw new BuildFailedError('step_failed', message ?? 'The image could not be read.');
    });
  }

  /** Lists what the package managers of the sandbox have installed; undefined if that fails. */
  async listPackages(at: Pick<StepRun, 'sandbox' | 'signal'>): Promise<InstalledPackages | undefined> {
    const { status, stdout } = await this.#ask(LIST_PACKAGES, { stdoutBytes: LISTED_BYTES, timeoutMs: LISTING_MS }, at);
    return status === 'exited' ? parseInstalledPackages(stdout) : undefined;
  }

  /** Returns why modules cannot be loaded ahead in sandboxes of the version; undefined if they can. */
  async importFailure(
    imports: readonly string[],
    at: Pick<StepRun, 'sandbox' | 'signal'>,
  ): Promise<string | undefined> {
    const bounds = { stdoutBytes: IMPORTS_BYTES, timeoutMs: IMPORTING_MS };
    return importFailure(await this.#ask(importCommand(imports), bounds, at), imports);
  }

  /** Returns why Python cannot start in sandboxes of the version; undefined if it can, or if another try could help. */
  pythonFailure({ sandbox, signal }: Pick<StepRun, 'sandbox' | 'signal'>): Promise<string | undefined> {
    return this.#deps.sandboxUse.act(sandbox, { signal }, async (agent) => {
      const id = this.#deps.ids.next('cctx_');
      try {
        await agent.openContext(id, { language: 'python', cwd: DEFAULT_CWD, timeoutMs: STARTING_MS }, signal);
        await agent.closeContext(id, signal);
        return undefined;
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        if (error.kind === 'language_unavailable') return 'no folder of its PATH has a python3';
        if (error.kind === 'unusable') return error.message.slice(0, LONGEST_REASON).toWellFormed();
        if (PASSING.includes(error.kind)) return undefined;
        throw error;
      }
    });
  }

  /**
   * Runs a program that reports something about the sandbox.
   *
   * @param onLine called with each line that the program prints to standard error
   */
  #ask(
    argv: string[],
    { stdoutBytes, timeoutMs }: { readonly stdoutBytes: number; readonly timeoutMs?: number },
    { sandbox, signal }: Pick<StepRun, 'sandbox' | 'signal'>,
    onLine?: (text: string) => Promise<void>,
  ): Promise<AgentCommand & { readonly stdout: string }> {
    return this.#deps.sandboxUse.act(sandbox, { signal }, async ({ commands }) => {
      const id = this.#deps.ids.next('cmd_');
      const capture = { stdoutBytes, stderrBytes: 0 };
      const command = { argv, cwd: '/', env: {}, user: 'root' as const };
      const logBytes = onLine ? NOTES_BYTES : 0;
      await commands.start(
        id,
        { ...command, stdinOpen: false, logBytes, ...(timeoutMs && { timeoutMs }), capture },
        signal,
      );
      if (onLine) await forwardErrors(commands.follow(id, 0, signal), onLine);
      const { command: ended, stdout } = await commands.result(id, signal);
      if (jsonBytes(stdout) > stdoutBytes + NOTICE_BYTES) {
        throw new AgentError('misbehaved', 'The agent sent more output than the request allows.');
      }
      return { ...ended, stdout };
    });
  }

  async #follow(command: StepCommand, { commands }: AgentClient, run: StepRun): Promise<AgentCommand> {
    const { number, output, signal } = run;
    const id = this.#deps.ids.next('cmd_');
    await commands.start(id, { ...command, stdinOpen: false, logBytes: LIMITS.commandLogBytes }, signal);
    let bytes = 0;
    for await (const event of commands.follow(id, 0, signal)) {
      if (event.type === 'exit') return event.command;
      const { stream, data } = event.entry;
      bytes += Buffer.byteLength(data) + ENTRY_OVERHEAD_BYTES;
      if (bytes > LIMITS.templateStepOutputBytes) throw tooMuchOutput(number);
      await output.add({ step: number, stream, data });
    }
    throw new Error('the output of a command ended without its exit');
  }

  async #writeFiles(
    files: readonly PlannedFile[],
    { files: all }: AgentClient,
    run: Pick<StepRun, 'number' | 'signal'>,
  ): Promise<StepResult> {
    for (const file of files) {
      const access = all.as(file.as);
      try {
        await access.makeDirectory(posix.dirname(file.path), run.signal);
        await access.write(file.path, await this.#sourceOf(file, run), { mode: file.mode }, run.signal);
      } catch (error) {
        if (!(error instanceof FileError)) throw error;
        if (error.kind === 'disk_full') throw diskFull(run.number);
        throw new BuildFailedError('step_failed', `${file.path} was not written: ${error.message}`, run.number);
      }
    }
    return {};
  }

  /** Unpacks an image into the folder that a capture uses as the root. A registry's is downloaded first. */
  async #unpackImage(step: ImageStep, agent: AgentClient, run: StepRun): Promise<StepResult> {
    if ('pull' in step) {
      await this.#bringLayers(step.pull, agent, run);
      await this.#writeFiles([requestFile(step.pull)], agent, run);
      return { imageEnv: (await this.#runUnpack(['pull', REQUEST, IMAGE_ROOT], run)).env ?? {} };
    }
    const { artifactId, sha256 } = step;
    const archive = { path: ARCHIVE, content: { artifactId, sha256 }, mode: '0600', as: 'root' } as const;
    await this.#writeFiles([archive], agent, run);
    return { imageEnv: (await this.#runUnpack([ARCHIVE, IMAGE_ROOT], run)).env ?? {} };
  }

  /** Brings the layers of an image into the sandbox. Where the registry does not name them, the pull says why. */
  async #bringLayers(image: PlannedPull, agent: AgentClient, run: StepRun): Promise<void> {
    const { sandbox, signal } = run;
    await this.#writeFiles([requestFile(image)], agent, run);
    const { stdout } = await this.#ask([...UNPACK, 'layers', REQUEST], { stdoutBytes: UNPACKED_BYTES }, run);
    const { layers } = parseUnpacked(stdout);
    if (!layers) return;
    const download = async (missing: readonly LayerBlob[]) => {
      await this.#writeFiles([requestFile(image, missing)], agent, run);
      await this.#runUnpack(['download', REQUEST], run);
    };
    const place = layerPlace({ layers, files: agent.files.as('root'), download, run });
    await this.#deps.imageLayers.bring(layers, place, { orgId: sandbox.orgId, buildId: run.buildId, signal });
  }

  async #runUnpack(args: readonly string[], run: StepRun) {
    const { number } = run;
    const bounds = { stdoutBytes: UNPACKED_BYTES };
    const note = (data: string) => run.output.add({ step: number, stream: 'stdout', data });
    const { stdout, ...ended } = await this.#ask([...UNPACK, ...args], bounds, run, note);
    const unpacked = parseUnpacked(stdout);
    if (ended.exitCode === 0 && (unpacked.env || unpacked.digest !== undefined)) return unpacked;
    const message = unpacked.message ?? 'The image could not be unpacked.';
    throw (await this.#diskFailure(run)) ?? new BuildFailedError('step_failed', message, number);
  }

  async #sourceOf({ path, content }: PlannedFile, { number, signal }: Pick<StepRun, 'number' | 'signal'>) {
    if ('base64' in content) {
      const bytes = Buffer.from(content.base64, 'base64');
      return { sizeBytes: bytes.length, open: () => Readable.from([bytes], { objectMode: false }) };
    }
    const artifact = await this.#deps.artifacts.find(content.artifactId);
    if (!artifact || artifact.deletedAt !== undefined) {
      throw new BuildFailedError('step_failed', `The artifact of ${path} has been deleted.`, number);
    }
    const body = await this.#deps.contents.read(artifact, undefined, signal);
    return { sizeBytes: artifact.sizeBytes, open: () => body };
  }

  async #diskFailure({ sandbox, number, signal }: StepRun): Promise<BuildFailedError | undefined> {
    const { id: sandboxId, generation } = sandbox;
    const [measured] = await this.#deps.metering.measure([{ sandboxId, generation }], signal).catch(() => []);
    if (!measured) return undefined;
    const { measurement, diskLimitBytes, inodesLimit } = measured;
    const isFull = (used: number | undefined, limit: number | undefined) =>
      used !== undefined && limit !== undefined && used >= limit * FULL;
    const full = isFull(measurement.diskBytes, diskLimitBytes) || isFull(measurement.inodes, inodesLimit);
    return full ? diskFull(number) : undefined;
  }
}

function requestFile(image: PlannedPull, layers?: readonly LayerBlob[]): PlannedFile {
  const base64 = pullRequest(image, layers).toString('base64');
  return { path: REQUEST, content: { base64 }, mode: '0600', as: 'root' };
}

function tooMuchOutput(step: number): BuildFailedError {
  const mebibytes = LIMITS.templateStepOutputBytes / 2 ** 20;
  return new BuildFailedError('step_failed', `Step ${step} printed more than ${mebibytes} MiB.`, step);
}
