import { LIMITS, type TemplateBuildId } from '@cloche/contract';
import { Semaphore } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import { Loop } from '../../../platform/base/loop.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import { BuildPlace } from './build-place.ts';
import type { BuildRepository } from './build-repository.ts';
import type { BuildTurn, RunBuild } from './run-build.ts';
import type { BuildRecord } from './template-build.ts';

/** Builds that one server runs at a time, without those that wait for room for their sandbox. */
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
 * Runs builds. Organizations take turns; the builds of an organization begin in the order of their creation. Several
 * servers share the work: each claims a build before it runs it.
 */
export class BuildQueue {
  readonly #deps: BuildQueueDeps;
  readonly #stop = new AbortController();
  readonly #places = new Semaphore(AT_A_TIME);
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
      if (this.#stop.signal.aborted) return;
      if (this.#running.has(build.id)) continue;
      const place = BuildPlace.take(this.#places, () => this.wake());
      if (!place) return;
      await this.#begin(build, place);
    }
  }

  /** Begins a build, which then owns the place. */
  async #begin({ id }: BuildRecord, place: BuildPlace): Promise<void> {
    const { claims, serverId, ids, clock } = this.#deps;
    using unused = new DisposableStack();
    unused.use(place);
    const claim = `${serverId}:${ids.next('clm_')}`;
    const claimedAt = performance.now();
    if (!(await claims.acquire(id, claim, clock.now()))) return;
    unused.move();
    const building = this.#build(id, { claim, claimedAt, place }).finally(() => {
      this.#running.delete(id);
      place[Symbol.dispose]();
      this.wake();
    });
    this.#running.set(id, building);
  }

  /** After an unexpected error the claim is kept, so that the build is retried only when the claim has expired. */
  async #build(id: TemplateBuildId, turn: BuildTurn): Promise<void> {
    const { builds, runBuild, claims, log } = this.#deps;
    const { claim } = turn;
    const { signal } = this.#stop;
    try {
      const build = await builds.findClaimed(id, claim);
      if (build) await runBuild.run(build, turn, signal);
      await claims.release(id, claim);
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, buildId: id }, 'a build will be taken up again');
    }
  }
}
