import { LIMITS, type TemplateBuildId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { IdSource } from '../../base/id-source.ts';
import { Loop } from '../../base/loop.ts';
import type { ClaimedRows } from '../../db/claimed-rows.ts';
import type { BuildRepository } from './build-repository.ts';
import type { RunBuild } from './run-build.ts';
import type { BuildRecord } from './template-build.ts';

/** Builds that one server runs at a time. */
const AT_A_TIME = 4;
/**
 * Number of builds that one query returns. It exceeds the number of builds that run, because builds of an organization
 * at its limit must wait.
 */
const LOOKED_AT = 200;
/** Longest time until this server finds a build that another server created, or that had to wait. */
const LOOK_AGAIN_MS = 1_000;
/** Shortest time between two queries. */
const BETWEEN_LOOKS_MS = 20;

export interface BuildQueueDeps {
  readonly builds: BuildRepository;
  readonly runBuild: RunBuild;
  readonly claims: ClaimedRows;
  readonly serverId: string;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Runs builds in the order of their creation. Several servers share the work: each claims a build before it runs it.
 */
export class BuildQueue {
  readonly #deps: BuildQueueDeps;
  readonly #stop = new AbortController();
  readonly #running = new Map<TemplateBuildId, Promise<void>>();
  #looks: Loop | undefined;

  constructor(deps: BuildQueueDeps) {
    this.#deps = deps;
  }

  /** Starts to run builds, beginning with those that an earlier process of this server was running. */
  async start(): Promise<void> {
    await this.#deps.claims.releaseAllOf(this.#deps.serverId);
    const look = () => this.#beginDue().then(() => LOOK_AGAIN_MS);
    this.#looks = new Loop('template builds', look, LOOK_AGAIN_MS, this.#deps.log, BETWEEN_LOOKS_MS);
  }

  /** Looks for builds now. */
  wake(): void {
    this.#looks?.wake();
  }

  /** Interrupts builds. They go on at the next start or on another server, from the last step that was completed. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#looks?.stop();
    await Promise.all(this.#running.values());
  }

  async #beginDue(): Promise<void> {
    const { builds, clock } = this.#deps;
    for (const build of await builds.listDue(clock.now(), LIMITS.templateBuildsAtOnce, LOOKED_AT)) {
      if (this.#stop.signal.aborted || this.#running.size >= AT_A_TIME) return;
      if (!this.#running.has(build.id)) await this.#begin(build);
    }
  }

  async #begin(found: BuildRecord): Promise<void> {
    const { claims, serverId, ids, clock } = this.#deps;
    const claim = `${serverId}:${ids.next('clm_')}`;
    const claimedAt = performance.now();
    if (!(await claims.acquire(found.id, claim, clock.now()))) return;
    const building = this.#build(found.id, claim, claimedAt).finally(() => {
      this.#running.delete(found.id);
      this.wake();
    });
    this.#running.set(found.id, building);
  }

  /** After an unexpected error the claim is kept, so that the build is retried only when the claim has expired. */
  async #build(id: TemplateBuildId, claim: string, claimedAt: number): Promise<void> {
    const { builds, runBuild, claims, log } = this.#deps;
    const { signal } = this.#stop;
    try {
      const build = await builds.findClaimed(id, claim);
      if (build) await runBuild.run(build, claim, claimedAt, signal);
      await claims.release(id, claim);
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, buildId: id }, 'a build will be taken up again');
    }
  }
}
