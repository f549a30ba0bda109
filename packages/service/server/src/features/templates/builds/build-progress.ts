import type { SandboxId, TemplateBuildId, TemplateStepStatus } from '@cloche/contract';
import type { BuildRepository } from './build-repository.ts';
import type { BuildRecord } from './template-build.ts';

/** The build ended without its builder: a client canceled it, or another server took it over. */
export class BuildEndedError extends Error {
  override readonly name = 'BuildEndedError';

  constructor(id: TemplateBuildId) {
    super(`the build ${id} has ended, or another server has it`);
  }
}

/**
 * Records the progress of a build. Every method throws `BuildEndedError` if the build has ended or another server has
 * taken it over.
 */
export class BuildProgress {
  /** The claim of this process to the build. */
  readonly claim: string;
  readonly #builds: BuildRepository;
  #build: BuildRecord;

  constructor(builds: BuildRepository, build: BuildRecord, claim: string) {
    this.#builds = builds;
    this.#build = build;
    this.claim = claim;
  }

  /** The record as this process wrote it last. */
  get build(): BuildRecord {
    return this.#build;
  }

  /** Sets the status of the steps from `first` up to the one before `end`, counted from 0. */
  async set(first: number, end: number, status: TemplateStepStatus): Promise<void> {
    if (first === end) return;
    const steps = this.#build.steps.map((step, index) => (index >= first && index < end ? { ...step, status } : step));
    this.#keep(await this.#builds.update(this.#build.id, this.claim, { steps }));
  }

  async setSandbox(sandboxId: SandboxId): Promise<void> {
    this.#keep(await this.#builds.update(this.#build.id, this.claim, { sandboxId }));
  }

  /** Records that another sandbox is about to be created. */
  async beginLaunch(): Promise<void> {
    this.#keep(await this.#builds.beginLaunch(this.#build, this.claim));
  }

  #keep(build: BuildRecord | undefined): void {
    if (!build) throw new BuildEndedError(this.#build.id);
    this.#build = build;
  }
}
