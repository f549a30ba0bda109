/** The store of artifacts as simulated servers reach it: requests take time, may be lost, and may arrive late or twice. */
import { type ArtifactStore, type ContentName, NoAnswerError } from '../../src/artifacts/store/artifact-store.ts';
import type { Peer } from './faults.ts';
import type { WorkloadWorld } from './workload.ts';

/** Longest time that a request is on its way after its server has given it up. */
const LATE_MS = 40_000;
/** How many times older contents look than they are, so that a simulation sees the removal of those that are an hour old. */
const AGING = 60;

/** The contents that all servers share, with the times at which they were stored. */
export class SimulatedStore {
  readonly contents = new Map<ContentName, number>();
  /** Called after each removal. */
  onRemoved: (name: ContentName) => void = () => undefined;
  readonly #world: WorkloadWorld;

  constructor(world: WorkloadWorld) {
    this.#world = world;
  }

  /** Returns the store as `peer` reaches it. What no simulation uses is missing. */
  openFor(peer: Peer): ArtifactStore {
    const { seams, time } = this.#world;
    const { contents } = this;
    const ask = <T>(label: string, act: () => T): Promise<T> => {
      const lost = () => new NoAnswerError('the bucket does not answer');
      // What was lost may still be on its way, and what was done may have been sent twice.
      const onLost = () => {
        if (time.random.chance(0.7)) time.afterFor(undefined, time.random.next() * LATE_MS, `${label}, late`, act);
      };
      return seams.call(peer, 'store', label, act, { lost, onLost });
    };
    const store: Partial<ArtifactStore> = {
      // What is lost is noticed within seconds.
      arrivesWithinMs: LATE_MS + 10_000,
      has: (name) => ask(`content ${short(name)}: look`, () => contents.has(name)),
      put: (_file, { sha256, name = sha256 }) =>
        ask(`content ${short(name)}: put`, () => {
          contents.set(name, time.now());
        }),
      remove: (name) =>
        ask(`content ${short(name)}: remove`, () => {
          if (contents.delete(name)) this.onRemoved(name);
        }),
      list: async function* () {
        const listed = await ask('contents: list', () => [...contents]);
        for (const [name, at] of listed) yield { name, storedAt: time.now() - (time.now() - at) * AGING };
      },
    };
    // Sound: a simulation calls nothing else; a missing method would throw.
    return store as ArtifactStore;
  }
}

function short(name: ContentName): string {
  return name.slice(0, 6);
}
