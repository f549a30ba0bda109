import {
  type operations,
  type QueryOf,
  SANDBOX_STATUS_FACTS,
  type Sandbox,
  type SandboxStatus,
} from '@cloche/contract';
import type { ProjectAccess } from '../../../platform/access/project-access.ts';
import type { Call } from '../../../platform/call/call.ts';
import { type List, labelsOf } from '../../../platform/db/list.ts';
import { createdPlace, type ListPart } from '../../../platform/db/list-part.ts';
import { createdBetween } from '../../../platform/http/query-time.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxFilter, SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { type SharedActivity, showSandboxes } from '../../sandbox-records/shared-activity.ts';

type Query = QueryOf<typeof operations.listSandboxes>;
/** Live sandboxes that are read at once to find those with a status that depends on their activity. */
const READ_AT_ONCE = 500;

interface Shown {
  readonly record: SandboxRecord;
  readonly sandbox: Sandbox;
}

/** Lists the sandboxes that a key may see, newest first. */
export class ListSandboxes {
  readonly #sandboxes: SandboxRepository;
  readonly #projects: ProjectAccess;
  readonly #activity: SharedActivity;

  constructor(sandboxes: SandboxRepository, projects: ProjectAccess, activity: SharedActivity) {
    this.#sandboxes = sandboxes;
    this.#projects = projects;
    this.#activity = activity;
  }

  /** @throws AppError `not_found` and `forbidden` for a `projectId` that the key cannot use. */
  async open({ credential }: Call, query: Query): Promise<List<Shown, Sandbox>> {
    const filter: SandboxFilter = {
      orgId: credential.orgId,
      projectIds: await this.#projects.listed(credential, query.projectId),
      status: recordStatus(query),
      paused: query.paused,
      name: query.name,
      labels: labelsOf(query),
      idPrefix: query.idPrefix,
      ...createdBetween(query),
    };
    return {
      read: (part) => this.#read(filter, query.status, part),
      placeOf: ({ record }) => createdPlace(record),
      show: (entries) => entries.map(({ sandbox }) => sandbox),
    };
  }

  /** Reads until enough sandboxes have the status, because only the servers know whether anything runs in a sandbox. */
  async #read(filter: SandboxFilter, status: SandboxStatus | undefined, part: ListPart): Promise<Shown[]> {
    const found: Shown[] = [];
    const atOnce = isDerived(status) ? READ_AT_ONCE : part.limit;
    for (let { after } = part; ; ) {
      const records = await this.#sandboxes.list(filter, { after, limit: atOnce });
      const shown = await showSandboxes(records, this.#activity);
      for (const [index, sandbox] of shown.entries()) {
        const matches = status === undefined || sandbox.status === status;
        if (matches) found.push({ record: records[index] as SandboxRecord, sandbox });
        if (found.length === part.limit) return found;
      }
      const last = records.at(-1);
      if (records.length < atOnce || !last) return found;
      after = createdPlace(last);
    }
  }
}

function recordStatus({ status, include }: Query): SandboxFilter['status'] {
  if (status !== undefined) return isDerived(status) ? 'ready' : status;
  return include === 'historical' ? undefined : 'unended';
}

/** Whether a status depends on the activity in the sandbox, which records do not have. */
function isDerived(status: SandboxStatus | undefined): status is 'ready' | 'running' | 'idle' {
  return status !== undefined && SANDBOX_STATUS_FACTS[status].isReady;
}
