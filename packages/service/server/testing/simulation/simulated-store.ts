/**
 * The store of artifacts as simulated servers reach it. In a bucket, requests take time, may be lost, and may arrive late
 * or twice. In a folder, each step takes time, and a server that pauses or ends takes it late or never.
 */
import {
  type ArtifactStore,
  type ContentName,
  NoAnswerError,
  type SetAsideContent,
  StoreError,
} from '../../src/features/artifacts/store/artifact-store.ts';
import type { Peer } from './faults.ts';
import type { WorkloadWorld } from './workload.ts';

/** Longest time that a request is on its way after its server has given it up. */
const LATE_MS = 40_000;
/** Time for which a bucket carries a removal out after it was prepared. */
const VALID_MS = 20_000;
/** How many times older contents look than they are, so that a simulation sees the removal of those that are an hour old. */
const AGING = 60;

/** How many of the simulations have a folder. */
const FOLDERS = 0.4;

/** The contents that all servers share, with the times at which they were stored. */
export class SimulatedStore {
  readonly contents = new Map<ContentName, number>();
  /** Contents set aside, with the numbers of their removals. */
  readonly asides = new Map<number, { name: ContentName; at: number }>();
  /** Called after each removal. */
  onRemoved: (name: ContentName) => void = () => undefined;
  readonly #world: WorkloadWorld;
  readonly #isFolder: boolean;
  #setAside = 0;

  constructor(world: WorkloadWorld) {
    this.#world = world;
    this.#isFolder = world.time.random.chance(FOLDERS);
  }

  /** Returns whether a download finds the content. */
  canRead(name: ContentName): boolean {
    return this.contents.has(name) || [...this.asides.values()].some((aside) => aside.name === name);
  }

  /** Returns the store as `peer` reaches it. */
  openFor(peer: Peer): ArtifactStore {
    const store = this.#isFolder ? this.#folderFor(peer) : this.#bucketFor(peer);
    // Sound: a simulation calls nothing else; a missing method would throw.
    return store as ArtifactStore;
  }

  #folderFor(peer: Peer): Partial<ArtifactStore> {
    const { seams, time } = this.#world;
    const { contents, asides } = this;
    const step = <T>(label: string, act: () => T): Promise<T> =>
      new Promise((resolve) => time.afterFor(peer, seams.latency(), label, () => resolve(act())));
    const open = (number: number, name: ContentName): SetAsideContent => {
      const remove = () =>
        step(`content ${short(name)}: remove aside ${number}`, () => {
          if (asides.delete(number)) this.onRemoved(name);
        });
      const putBack = async () => {
        await step(`content ${short(name)}: put back aside ${number}`, () => {
          const aside = asides.get(number);
          if (aside && !contents.has(name)) contents.set(name, aside.at);
        });
        await remove();
      };
      return { name, putBack, remove };
    };
    return {
      asides: {
        setAside: (name) =>
          step(`content ${short(name)}: set aside`, () => {
            const at = contents.get(name);
            if (at === undefined) return undefined;
            const number = ++this.#setAside;
            contents.delete(name);
            asides.set(number, { name, at });
            return open(number, name);
          }),
        list: async function* () {
          for (const [number, { name }] of [...asides]) yield open(number, name);
        },
      },
      has: (name) => step(`content ${short(name)}: look`, () => contents.has(name)),
      put: (_file, { sha256, name = sha256 }) =>
        step(`content ${short(name)}: put`, () => {
          if (!contents.has(name)) contents.set(name, time.now());
        }),
      list: () => this.#list(async () => [...contents]),
    };
  }

  #bucketFor(peer: Peer): Partial<ArtifactStore> {
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
    return {
      asides: undefined,
      has: (name) => ask(`content ${short(name)}: look`, () => contents.has(name)),
      put: (_file, { sha256, name = sha256 }) =>
        ask(`content ${short(name)}: put`, () => {
          contents.set(name, time.now());
        }),
      prepareRemoval: async (name) => {
        const preparedAt = await ask(`content ${short(name)}: prepare removal`, () => time.now());
        const send = async () => {
          const isInTime = await ask(`content ${short(name)}: remove`, () => {
            if (time.now() > preparedAt + VALID_MS) return false;
            if (contents.delete(name)) this.onRemoved(name);
            return true;
          });
          if (!isInTime) throw new StoreError('the signature has expired');
        };
        return { arrivesWithinMs: VALID_MS, send };
      },
      list: () => this.#list(() => ask('contents: list', () => [...contents])),
    };
  }

  async *#list(look: () => Promise<[ContentName, number][]>) {
    const now = () => this.#world.time.now();
    for (const [name, at] of await look()) yield { name, storedAt: now() - (now() - at) * AGING };
  }
}

function short(name: ContentName): string {
  return name.slice(0, 6);
}
