import type { TemplateBuildId } from '@cloche/contract';
import { type Deadline, pause } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import { Fence } from '../../../platform/base/fence.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { BuildRepository } from './build-repository.ts';
import { isFinished } from './template-build.ts';

/** Interval at which the builder checks whether it still holds the claim to its build. */
const LOOK_MS = 1_000;

export interface HoldBuildDeps {
  readonly builds: Pick<BuildRepository, 'findById'>;
  readonly claims: Pick<ClaimedRows, 'renew' | 'claimMs'>;
  readonly changes: Changes<TemplateBuildId>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface ClaimedBuild {
  readonly id: TemplateBuildId;
  readonly claim: string;
  /** When the claim was sent, by `performance.now()`. */
  readonly claimedAt: number;
}

/**
 * Prolongs the claim until `ended` aborts. Cancels `deadline` if another process holds the claim, if the build has
 * ended, or before another process may take the build over because the database does not answer.
 */
export async function holdBuild(
  { builds, claims, changes, clock, log }: HoldBuildDeps,
  { id, claim, claimedAt }: ClaimedBuild,
  deadline: Deadline,
  ended: AbortSignal,
): Promise<void> {
  using watch = changes.watch(id);
  const fence = new Fence(() => deadline.end('canceled'), undefined, claims.claimMs);
  fence.renewed(claimedAt);
  try {
    while (!ended.aborted) {
      const changed = watch.next();
      await Promise.race([pause(LOOK_MS, ended), changed]);
      if (ended.aborted) return;
      try {
        const sentAt = fence.now();
        const isOwn = await claims.renew(id, claim, clock.now());
        if (isOwn) fence.renewed(sentAt);
        const build = await builds.findById(id);
        if (!isOwn || !build || isFinished(build)) deadline.end('canceled');
      } catch (error) {
        log.warn({ err: error, buildId: id }, 'the claim of a build was not prolonged');
      }
    }
  } finally {
    fence.stop();
  }
}
