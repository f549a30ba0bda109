import type { CreateSandboxBody, WorkspaceRunError } from '@cloche/contract';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import { factsOf } from '../../sandbox-status/status-facts.ts';
import type { RunOutcome, WorkspaceRunRecord } from '../record/workspace-run.ts';

/** Lifetime of a sandbox beyond its command: for the launch, the archive, SIGTERM and the artifacts. */
const BEYOND_COMMAND_MS = 3_600_000;

export function lifetimeOf({ settings }: WorkspaceRunRecord): number {
  return settings.timeoutMs + BEYOND_COMMAND_MS;
}

/** Returns the request for the sandbox of a run. */
export function sandboxBody({ id, projectId, settings, templateVersionId }: WorkspaceRunRecord): CreateSandboxBody {
  const { env, secrets, resources, networkPolicy } = settings;
  return {
    projectId,
    templateVersionId,
    env,
    ...(Object.keys(secrets).length > 0 && { secrets }),
    resources,
    networkPolicy,
    metadata: { workspaceRun: id },
  };
}

/**
 * Returns the id that takes the place of an idempotency record. It ensures one sandbox for each attempt of a run, even
 * if several servers create it.
 */
export function sandboxRecordId({ id, attempt }: WorkspaceRunRecord): string {
  return `${id}:${attempt}`;
}

export function findSandbox(sandboxes: SandboxRepository, run: WorkspaceRunRecord): Promise<SandboxRecord | undefined> {
  return run.sandboxId === undefined
    ? sandboxes.findByIdempotencyRecord(sandboxRecordId(run))
    : sandboxes.find(run.sandboxId);
}

export function failed(code: WorkspaceRunError['code'], message: string): RunOutcome {
  return { status: 'failed', error: { code, message } };
}

/** Returns the outcome of a run whose sandbox has ended; undefined while the sandbox is live. */
export function lostWith(sandbox: SandboxRecord | undefined): RunOutcome | undefined {
  if (sandbox && !factsOf(sandbox).isOver) return undefined;
  const reason = sandbox?.failureReason ?? sandbox?.destroyedReason ?? sandbox?.endingReason ?? 'it is gone';
  return failed('sandbox_lost', `The sandbox of the run ended before the run did (${reason}). Start another run.`);
}
