import { setImmediate } from 'node:timers/promises';
import { type CreateSandboxBody, DEFAULT_TEMPLATE } from '@cloche/contract';
import { type ProjectAccess, projectDeleted } from '../../../platform/access/project-access.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import type { Quotas, RequireRoom } from '../../quotas/quotas.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import { nameTaken } from '../../sandbox-records/sandbox-access.ts';
import { NEVER_PAUSED } from '../../sandbox-records/sandbox-pauses.ts';
import type { InsertResult, SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { planSecrets } from '../../secrets/sandbox-secrets.ts';
import type { SecretRepository } from '../../secrets/secret-repository.ts';
import type { FindTemplates } from '../../template-catalogue/custom/find-templates.ts';
import type { ResolvedVersion } from '../../template-catalogue/template-catalogue.ts';
import { checkCreation, resourcesOfVersion } from './create-request.ts';
import type { LaunchSandbox } from './launch-sandbox.ts';
import { type CanPause, planPause } from './plan-pause.ts';

export interface CreateSandboxDeps {
  readonly sandboxes: SandboxRepository;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly secrets: SecretRepository;
  readonly templates: FindTemplates;
  readonly launchSandbox: LaunchSandbox;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly settings: SandboxSettings;
  /** Whether sandboxes can be paused here, by every server that is alive. */
  readonly canPause: CanPause;
}

export interface SandboxCreation {
  readonly body: CreateSandboxBody;
  /** Whether a client asks for it, so that the operator's policies for sandboxes of clients apply. */
  readonly isClients?: boolean;
  /** Whether clients find the sandbox by its name, so that it is to outlive its lifetime. */
  readonly isFoundByName?: boolean;
  /** Template version to launch instead of the one that the body names, for example one that only builds use. */
  readonly version?: ResolvedVersion;
  /** Lifetime of a sandbox that the service itself creates. May exceed the maximum for clients. */
  readonly lifetimeMs?: number;
  /** Whether the caller retries until a quota has room, so that refusals by quotas have no events. */
  readonly waitsForRoom?: boolean;
  /** Whether the sandbox computes from its start. */
  readonly expectsImmediateLoad?: boolean;
  /** Called in the transaction that inserts the sandbox. If it rejects, there is no sandbox. */
  readonly guard?: (tx: Transaction) => Promise<void>;
}

/** A sandbox that was created, now or by an earlier attempt, or the one that has its name. */
type Attempted = Extract<InsertResult, { readonly record: SandboxRecord }>;

/** Accepts requests for sandboxes. Each launch continues in the background. */
export class CreateSandbox {
  readonly #deps: CreateSandboxDeps;

  constructor(deps: CreateSandboxDeps) {
    this.#deps = deps;
  }

  /**
   * Creates exactly one sandbox per idempotency record, also across retries and server restarts.
   *
   * @throws AppError `conflict` if another sandbox has the name
   */
  async create(call: Call, creation: SandboxCreation): Promise<SandboxRecord> {
    const { status, record } = await this.attempt(call, creation);
    if (status === 'name_taken') throw nameTaken(record);
    return record;
  }

  /** As `create`, but returns the other sandbox that has the name. */
  async attempt(call: Call, creation: SandboxCreation): Promise<Attempted> {
    const { sandboxes, launchSandbox } = this.#deps;
    if (call.idempotency) {
      const made = await sandboxes.findByIdempotencyRecord(call.idempotency.recordId);
      if (made) return { status: 'exists', record: made };
    }
    const plan = await this.#plan(call, creation);
    const planned = { ...plan, launchOwner: launchSandbox.claim(plan.id) };
    const result = await this.#insert(call, planned, creation).catch((error) => {
      launchSandbox.release(planned.id);
      throw error;
    });
    if (result.status === 'inserted') {
      launchSandbox.start(result.record, creation);
      // Let the launch send its request to the runtime before this request is answered.
      await setImmediate();
      return result;
    }
    launchSandbox.release(planned.id);
    if (result.status === 'project_deleted') throw projectDeleted(planned.projectId);
    return result;
  }

  /** If no limit applies, one statement inserts the sandbox and checks that none applies. */
  async #insert(
    call: Call,
    planned: SandboxRecord,
    { waitsForRoom = false, guard }: SandboxCreation,
  ): Promise<InsertResult> {
    const { sandboxes, quotas } = this.#deps;
    const { idempotencyRecordId, resources, pause } = planned;
    const { cpu, memoryMb } = resources;
    // The place of its pause at expiry, which is never refused.
    const pausedSandboxes = pause.onExpiry ? 1 : 0;
    const additions = {
      liveSandboxes: 1,
      liveCpu: cpu,
      liveMemoryMb: memoryMb,
      sandboxesPerMinute: 1,
      pausedSandboxes,
    };
    if (!guard && !quotas.limits.limitAll(additions)) {
      const result = await sandboxes.insertUnlimited(call, planned);
      if (result.status !== 'limited') return result;
    }
    const insert = async (tx: Transaction, requireRoom: RequireRoom): Promise<InsertResult> => {
      await guard?.(tx);
      const made = idempotencyRecordId && (await sandboxes.findByIdempotencyRecord(idempotencyRecordId, tx));
      if (made) return { status: 'exists', record: made };
      const { projectId, name } = planned;
      const holder = name === undefined ? undefined : await sandboxes.findNamed(projectId, name, tx);
      // The other sandbox may have taken the last of a quota.
      if (holder) return { status: 'name_taken', record: holder };
      await requireRoom(additions);
      return sandboxes.insert(call, planned, tx);
    };
    return quotas.admit(planned, insert, { reportRates: call.reportRates, announces: !waitsForRoom });
  }

  async #plan(
    { credential, idempotency }: Call,
    { body, isClients = false, isFoundByName = false, lifetimeMs, version: given }: SandboxCreation,
  ): Promise<Omit<SandboxRecord, 'launchOwner'>> {
    const { projects, templates, ids, settings, clock, canPause } = this.#deps;
    const { networkPolicy, resources, ...checked } = checkCreation(body, settings);
    const ttlMs = lifetimeMs ?? checked.ttlMs;
    const projectId = await projects.forCreation(credential, body.projectId);
    const { template, version } =
      given ?? (await templates.resolve(credential.orgId, body.template, body.templateVersionId, DEFAULT_TEMPLATE));
    const planned = body.secrets && (await planSecrets(this.#deps.secrets, projectId, body.secrets));
    const pause = await planPause({ body, ttlMs, isClients, isFoundByName }, settings, canPause);
    const createdAt = clock.now();
    return {
      id: ids.next('sbx_'),
      orgId: credential.orgId,
      projectId,
      name: body.name,
      status: 'creating',
      generation: 1,
      templateId: template.id,
      templateSlug: template.slug,
      templateVersion: version.version,
      templateVersionId: version.id,
      ttlMs,
      idleTimeoutMs: body.idleTimeoutMs,
      expiresAt: createdAt + ttlMs,
      metadata: body.metadata ?? {},
      env: { ...body.env, ...planned?.env },
      secrets: planned?.secrets,
      networkPolicy,
      resources: version.resources ? resourcesOfVersion(version.resources, body, settings) : resources,
      used: false,
      lastActiveAt: undefined,
      instance: undefined,
      createdAt,
      readyAt: undefined,
      destroyedAt: undefined,
      destroyedReason: undefined,
      failureReason: undefined,
      failureKind: undefined,
      endingReason: undefined,
      idempotencyRecordId: idempotency?.recordId,
      pause,
      startCommand: body.startCommand,
      ...NEVER_PAUSED,
    };
  }
}
