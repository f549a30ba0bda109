import {
  type CreateWorkspaceRunBody,
  DEFAULT_TEMPLATE,
  ID_PREFIXES,
  LIMITS,
  type operations,
  type QueryOf,
  type WorkspaceRun,
  type WorkspaceRunId,
} from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { ProjectAccess } from '../../../platform/access/project-access.ts';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import type { Call } from '../../../platform/call/call.ts';
import { type List, labelsOf, newestFirst } from '../../../platform/db/list.ts';
import type { Selection } from '../../../platform/db/list-part.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { requireSecrets } from '../../secrets/sandbox-secrets.ts';
import type { SecretRepository } from '../../secrets/secret-repository.ts';
import type { FindTemplates } from '../../template-catalogue/custom/find-templates.ts';
import { isFinished, toWorkspaceRun, type WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunAccess } from '../record/workspace-run-access.ts';
import type { RunFilter, WorkspaceRunRepository } from '../record/workspace-run-repository.ts';
import { checkRun } from './create-run-request.ts';

export interface WorkspaceRunServiceDeps {
  readonly runs: WorkspaceRunRepository;
  readonly runAccess: WorkspaceRunAccess;
  readonly runChanges: Changes<WorkspaceRunId>;
  readonly projects: ProjectAccess;
  readonly secrets: SecretRepository;
  readonly findTemplates: FindTemplates;
  readonly settings: SandboxSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Creates, lists and shows workspace runs. */
export class WorkspaceRunService {
  readonly #deps: WorkspaceRunServiceDeps;

  constructor(deps: WorkspaceRunServiceDeps) {
    this.#deps = deps;
  }

  /** Creates one run per idempotency record. @throws AppError as a creation of its sandbox does */
  async create(call: Call, body: CreateWorkspaceRunBody): Promise<WorkspaceRunRecord> {
    const { runs, projects, secrets, findTemplates, settings, clock, ids } = this.#deps;
    const { credential, idempotency } = call;
    const checked = checkRun(body, settings);
    const projectId = await projects.forCreation(credential, body.projectId);
    const { template, version } = await findTemplates.resolve(
      credential.orgId,
      body.template,
      body.templateVersionId,
      DEFAULT_TEMPLATE,
    );
    await requireSecrets(secrets, projectId, Object.values(checked.secrets));
    const record: WorkspaceRunRecord = {
      id: ids.next(ID_PREFIXES.workspaceRun),
      orgId: credential.orgId,
      projectId,
      status: 'awaiting_archive',
      settings: {
        ...checked,
        templateId: template.id,
        templateSlug: template.slug,
        templateVersion: version.version,
      },
      templateVersionId: version.id,
      metadata: body.metadata ?? {},
      autoStart: body.autoStart ?? false,
      archive: undefined,
      step: undefined,
      attempt: 1,
      archiveAttempts: 0,
      sandboxId: undefined,
      outcome: undefined,
      artifactIds: [],
      createdAt: clock.now(),
      queuedAt: undefined,
      startedAt: undefined,
      cancelRequestedAt: undefined,
      finishedAt: undefined,
      startRecordId: undefined,
      idempotencyRecordId: idempotency?.recordId,
    };
    const inserted = await runs.insert(call, record, LIMITS.unfinishedWorkspaceRuns);
    if (inserted.status === 'full') throw tooMany(inserted.used);
    return inserted.record;
  }

  /** Opens the list of the runs that a key may see, newest first. */
  async list(
    { credential }: Call,
    query: QueryOf<typeof operations.listWorkspaceRuns>,
    created: Pick<Selection, 'createdAfter' | 'createdBefore'>,
  ): Promise<List<WorkspaceRunRecord, WorkspaceRun>> {
    const filter: RunFilter = {
      orgId: credential.orgId,
      projectIds: await this.#deps.projects.listed(credential, query.projectId),
      status: query.status,
      labels: labelsOf(query),
      idPrefix: query.idPrefix,
      ...created,
    };
    return newestFirst((part) => this.#deps.runs.list(filter, part), toWorkspaceRun);
  }

  /** Returns the run when it has finished, or as it is after `waitMs`. */
  async finished({ signal }: Call, run: WorkspaceRunRecord, waitMs: number): Promise<WorkspaceRunRecord> {
    using limit = new Deadline(waitMs, signal);
    using watch = this.#deps.runChanges.watch(run.id);
    for (let record = run; ; ) {
      const changed = watch.next();
      record = (await this.#deps.runs.find(run.id)) ?? record;
      if (isFinished(record) || limit.signal.aborted) return record;
      await limit.race(changed).catch(() => undefined);
    }
  }
}

function tooMany(used: number): AppError {
  const limit = LIMITS.unfinishedWorkspaceRuns;
  const message = `The organization has ${used} unfinished workspace runs, and its limit is ${limit}; cancel some or wait.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'workspace_runs', limit, used } });
}
