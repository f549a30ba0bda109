import type { GetOrCreateSandboxBody } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import type { ProjectAccess } from '../../../platform/access/project-access.ts';
import { AppError, notFound, unavailable } from '../../../platform/base/app-error.ts';
import type { Call } from '../../../platform/call/call.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { AwaitSandbox } from '../use/await-sandbox.ts';
import { checkCreation } from './create-request.ts';
import type { CreateSandbox } from './create-sandbox.ts';
import { differingFields } from './differing-fields.ts';

/** Longest wait for a sandbox that is being destroyed and still has the name. */
const END_MS = 10_000;

export interface NamedSandboxesDeps {
  readonly sandboxes: SandboxRepository;
  readonly projects: ProjectAccess;
  readonly createSandbox: CreateSandbox;
  readonly awaitSandbox: AwaitSandbox;
  readonly settings: SandboxSettings;
}

/** Finds sandboxes by their names, and creates those that there are not. */
export class NamedSandboxes {
  readonly #deps: NamedSandboxesDeps;

  constructor(deps: NamedSandboxesDeps) {
    this.#deps = deps;
  }

  /** @throws AppError `not_found` */
  async get({ credential }: Call, name: string, projectId: string | undefined): Promise<SandboxRecord> {
    const { projects, sandboxes } = this.#deps;
    const found = await sandboxes.findNamed(await projects.ofRequest(credential, projectId, 'query'), name);
    if (!found) throw notFound('sandbox', name);
    return found;
  }

  /**
   * Returns the sandbox that has the name, or creates it: once, for any number of requests on any number of servers. The
   * unique index of names decides.
   *
   * @throws AppError `conflict` if the body asks for another sandbox than the one that there is
   */
  async getOrCreate(
    call: Call,
    name: string,
    body: GetOrCreateSandboxBody,
  ): Promise<{ readonly record: SandboxRecord; readonly created: boolean }> {
    const { sandboxes, projects, createSandbox, settings } = this.#deps;
    const { networkPolicy } = checkCreation(body, settings);
    const projectId = await projects.forCreation(call.credential, body.projectId);
    for (;;) {
      const found = await sandboxes.findNamed(projectId, name);
      const { status, record } = found
        ? ({ status: 'name_taken', record: found } as const)
        : await createSandbox.attempt(call, { body: { ...body, name }, isClients: true, isFoundByName: true });
      if (status !== 'name_taken' || isOwn(call, record)) return { record, created: true };
      if (factsOf(record).isOver) {
        await this.#end(record, call.signal);
        continue;
      }
      requireSame(record, { ...body, ...(body.networkPolicy && { networkPolicy }) });
      return { record, created: false };
    }
  }

  /** Waits until a sandbox that is being destroyed has given up its name. @throws AppError `unavailable` */
  async #end(record: SandboxRecord, signal: AbortSignal): Promise<void> {
    const { id } = record;
    using limit = new Deadline(END_MS, signal);
    const ended = await this.#deps.awaitSandbox.ended(record, limit.signal);
    signal.throwIfAborted();
    if (!factsOf(ended).isEnded)
      throw unavailable(`The sandbox "${id}" has the name and is being destroyed; try again.`);
  }
}

/** Returns whether an earlier attempt of the request created the sandbox. */
function isOwn({ idempotency }: Call, { idempotencyRecordId }: SandboxRecord): boolean {
  return idempotency !== undefined && idempotency.recordId === idempotencyRecordId;
}

function requireSame(record: SandboxRecord, body: GetOrCreateSandboxBody): void {
  const differs = differingFields(record, body);
  if (differs.length === 0) return;
  const message = `The sandbox "${record.id}" has the name "${record.name}" and another ${differs.join(', ')}.`;
  throw new AppError('conflict', message, { details: { sandboxId: record.id, differs } });
}
