import type { ApiKeyId, SecretId, TemplateVersionId } from '@cloche/contract';
import { LIMITS } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import { serviceCall, UNAUDITED } from '../../../platform/call/call.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { Credential } from '../../../platform/keys/credential.ts';
import type { LaunchFailureKind, SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { CreateSandbox } from '../../sandboxes/lifecycle/create-sandbox.ts';
import type { DestroySandbox } from '../../sandboxes/lifecycle/destroy-sandbox.ts';
import type { Plan } from '../../template-catalogue/recipe/plan.ts';
import { BuildEndedError, type BuildProgress } from './build-progress.ts';
import type { BuildRecord } from './template-build.ts';

export interface BuildSandboxDeps {
  readonly createSandbox: CreateSandbox;
  readonly destroySandbox: DestroySandbox;
  readonly sandboxes: SandboxRepository;
  readonly claims: ClaimedRows;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The sandbox that a build wants. */
export interface BuildLaunch {
  readonly versionId: TemplateVersionId;
  readonly plan: Plan;
  readonly secrets?: Readonly<Record<string, SecretId>> | undefined;
}

/** Name of versions that exist only during builds. */
const STEP_VERSION = 'build';

/**
 * Creates and destroys the sandboxes of builds. They are ordinary sandboxes of the default project: they count towards
 * quotas, and clients can see and destroy them. A build has one at a time. Before a sandbox is created, the build
 * stores the name of its idempotency record, so that the sandbox can be found after a server was killed.
 */
export class BuildSandbox {
  readonly #deps: BuildSandboxDeps;

  constructor(deps: BuildSandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Creates the sandbox for the latest launch that the build has recorded. @throws AppError `quota_exceeded`,
   * `rate_limited`, `unavailable`; `BuildEndedError` if another server has taken the build over
   */
  create(
    { build, claim }: BuildProgress,
    { versionId, plan, secrets }: BuildLaunch,
    signal: AbortSignal,
  ): Promise<SandboxRecord> {
    const { createSandbox, claims, clock, log } = this.#deps;
    const { env, resources } = plan.settings;
    const call = serviceCall({
      credential: ownerOf(build),
      recordId: recordOf(build),
      receivedAt: clock.now(),
      signal,
      log,
    });
    return createSandbox.create(call, {
      body: {
        env: { ...env },
        ...(secrets && { secrets }),
        resources: { ...resources },
        networkPolicy: plan.networkPolicy,
        metadata: { templateBuild: build.id },
        ttlMs: LIMITS.createTtlMaxMs,
      },
      // Prevents a late creation: a server that takes the build over looks for this sandbox only once.
      guard: async (tx) => {
        if (!(await claims.renew(build.id, claim, clock.now(), tx))) throw new BuildEndedError(build.id);
      },
      version: {
        template: { id: build.templateId, slug: build.templateSlug, languages: [] },
        version: {
          id: versionId,
          templateId: build.templateId,
          version: STEP_VERSION,
          digest: '',
          packages: {},
          builtAt: build.createdAt,
        },
      },
    });
  }

  /** Returns why no host launched the last sandbox; undefined for other failures. */
  async failureKind(build: BuildRecord): Promise<LaunchFailureKind | undefined> {
    return (await this.#deps.sandboxes.findByIdempotencyRecord(recordOf(build)))?.failureKind;
  }

  /** Destroys the sandbox of the last launch. Idempotent. @throws AppError `unavailable` while the host is down */
  async destroy(build: BuildRecord): Promise<void> {
    const sandbox = await this.#deps.sandboxes.findByIdempotencyRecord(recordOf(build));
    if (sandbox) await this.#deps.destroySandbox.destroy(UNAUDITED, sandbox.id, 'platform_cleanup');
  }
}

function recordOf({ id, launches }: BuildRecord): string {
  return `${id}.${launches}`;
}

/** The service itself acts for the organization: the request that created the build was authorized. */
function ownerOf({ orgId }: BuildRecord): Credential {
  return { apiKeyId: 'key_template_builds' as ApiKeyId, orgId, scopes: new Set(), projectIds: undefined };
}
