import type { ProjectId, QuotaName, QuotaUse } from '@cloche/contract';
import { AppError } from '../../platform/base/app-error.ts';
import type { Limit } from './limits.ts';

/** For each quota, the things that it counts and the remedy when it is used up. */
const TEXTS: Record<QuotaName, readonly [counted: string, remedy: string]> = {
  liveSandboxes: ['live sandboxes', 'destroy one first'],
  liveCpu: ['CPU cores of live sandboxes', 'destroy a sandbox first, or lower body.resources.cpu'],
  liveMemoryMb: ['MiB of memory of live sandboxes', 'destroy a sandbox first, or lower body.resources.memoryMb'],
  pausedSandboxes: ['paused sandboxes', 'resume or destroy one first'],
  pausedMemoryMb: ['MiB of memory of paused sandboxes', 'resume or destroy a paused sandbox first'],
  sandboxesPerMinute: ['sandboxes created in the last minute', 'repeat the request after Retry-After seconds'],
  wakesPerMinute: ['wakes in the last minute', 'repeat the request after Retry-After seconds'],
  requestsPerMinute: ['requests in the last minute', 'repeat the request after Retry-After seconds'],
  artifactBytes: ['bytes of artifacts', 'delete some first'],
  concurrentWorkspaceRuns: ['running workspace runs', 'wait until one has finished'],
  templateBytes: ['bytes of templates', 'delete a template first'],
  previews: ['open previews', 'delete one first'],
  secrets: ['secrets', 'delete one first'],
  webhooks: ['webhooks', 'delete one first'],
};

/** A request that a limit refuses: `quota_exceeded`, or `rate_limited` with the seconds until it may be repeated. */
export class QuotaRefusal extends AppError<'quota_exceeded' | 'rate_limited'> {
  readonly use: QuotaUse;

  constructor({ quota, limit, projectId }: Limit, used: number, added: number, retryAfterSeconds?: number) {
    const [counted, remedy] = TEXTS[quota];
    const message =
      `${nameOf(projectId)} would exceed its quota \`${quota}\` (${counted}): ` +
      `${used} of ${limit} in use, ${added} more requested; ${remedy}.`;
    if (retryAfterSeconds === undefined) super('quota_exceeded', message, { details: { quota, limit, used } });
    else super('rate_limited', message, { retryAfterSeconds });
    this.use = { quota, limit, used, ...(projectId !== undefined && { project: projectId }) };
  }
}

function nameOf(projectId: ProjectId | undefined): string {
  return projectId === undefined ? 'The organization' : `The project "${projectId}"`;
}
