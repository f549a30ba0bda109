import { pipeline, type Readable } from 'node:stream';
import type { OrgId, TemplateBuildId } from '@cloche/contract';
import { Deadline, orAbort } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Changes } from '../../../platform/base/changes.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import { tryEach } from '../../../platform/base/try-each.ts';
import { type ArtifactStore, ContentMissingError, StoreError } from '../../artifacts/store/artifact-store.ts';
import { DigestCheck } from '../../artifacts/store/digest-check.ts';
import type { Staging } from '../../artifacts/store/staging.ts';
import type { ImageLayerRepository, LayerBlob, LayerClaim } from './image-layer-repository.ts';

const SHA256 = 'sha256:';
/** Longest time between two reads of a layer's row while another build downloads the layer. */
const LOOK_MS = 5_000;
/** Names that are read at a time. */
const BATCH = 100;

/** A build that needs layers, and its organization. */
export interface LayerBuild {
  readonly orgId: OrgId;
  readonly buildId: TemplateBuildId;
  readonly signal: AbortSignal;
}

/** The sandbox of a build, which has folders for layers. */
export interface LayerPlace {
  /** Downloads layers from the registry of the image. */
  download(layers: readonly LayerBlob[]): Promise<void>;
  /** Opens a downloaded layer. Its content is untrusted. */
  open(layer: LayerBlob): Promise<Readable>;
  /** Writes a layer of the store. Returns false if its content breaks off. */
  write(layer: LayerBlob, content: Readable): Promise<boolean>;
}

export interface ImageLayersDeps {
  readonly repository: ImageLayerRepository;
  readonly store: ArtifactStore;
  readonly staging: Staging;
  /** Layers, by organization and digest, that a build has stored or given up. */
  readonly changes: Changes<string>;
  /** Most bytes of the layers of one organization. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Claimed {
  readonly layer: LayerBlob;
  readonly claim: LayerClaim;
}

/**
 * Shares the layers of images between the builds of an organization: each is downloaded once, and kept while builds use
 * it. Organizations share nothing, because a layer may have been downloaded with the credentials of one.
 *
 * SECURITY: a layer counts when the service has computed its digest from its bytes (image-layers.test.ts).
 */
export class ImageLayers {
  readonly #deps: ImageLayersDeps;

  constructor(deps: ImageLayersDeps) {
    this.#deps = deps;
  }

  /** Brings layers into a sandbox: from the store, or from the registry. */
  async bring(layers: readonly LayerBlob[], place: LayerPlace, build: LayerBuild): Promise<void> {
    const { changes } = this.#deps;
    for (let left = layers; left.length > 0; ) {
      using watches = new DisposableStack();
      // Before the claims are read, so that no change in between is missed.
      const changed = left.map((layer) => watches.use(changes.watch(keyOf(build, layer))).next());
      const claimed = await this.#claim(left, build);
      // A build that holds claims never waits for others, so builds cannot wait for each other in a circle.
      const isBusy = await this.#bringClaimed(claimed, place, build);
      left = claimed.filter(({ claim }) => claim.status === 'awaited').map(({ layer }) => layer);
      if (left.length === 0 || isBusy) continue;
      using limit = new Deadline(LOOK_MS, build.signal);
      await orAbort(Promise.race(changed), limit.signal).catch(() => undefined);
      build.signal.throwIfAborted();
    }
  }

  /** Removes the layers that no build has used since `before`, and contents that an interrupted removal has left. */
  async sweep(before: number): Promise<number> {
    const { repository, store, clock } = this.#deps;
    await repository.discardUnused(before, clock.now());
    let removed = 0;
    for (let names = await repository.listDiscarded(BATCH); names.length > 0; ) {
      for (const name of names) {
        await store.remove(name);
        await repository.delete(name);
        removed += 1;
      }
      names = await repository.listDiscarded(BATCH, names.at(-1));
    }
    await tryEach(store.list(), async ({ name }) => {
      if (!(await repository.isOwned(name))) await store.remove(name);
    });
    return removed;
  }

  async #claim(layers: readonly LayerBlob[], build: LayerBuild): Promise<Claimed[]> {
    const { repository, maxBytes, clock } = this.#deps;
    const claimed: Claimed[] = [];
    for (const layer of layers) {
      // The store names contents by SHA-256.
      const isShared = layer.digest.startsWith(SHA256);
      const claim = isShared ? await repository.claim(build, layer, maxBytes, clock.now()) : UNSHARED;
      claimed.push({ layer, claim });
    }
    return claimed;
  }

  /** Returns whether any layer was brought. Gives up the claims of layers that were not stored. */
  async #bringClaimed(claimed: readonly Claimed[], place: LayerPlace, build: LayerBuild): Promise<boolean> {
    const own = new Map<LayerBlob, string>();
    const missing: LayerBlob[] = [];
    try {
      for (const { layer, claim } of claimed) if (claim.status === 'own') own.set(layer, claim.name);
      for (const { layer, claim } of claimed) {
        if (claim.status === 'awaited') continue;
        if (claim.status === 'stored' && (await this.#write(layer, claim.name, place, build))) continue;
        missing.push(layer);
      }
      if (missing.length > 0) await place.download(missing);
      for (const [layer, name] of own) if (await this.#keep(layer, name, place, build)) own.delete(layer);
      return claimed.some(({ claim }) => claim.status !== 'awaited');
    } finally {
      for (const [layer, name] of own) await this.#giveUp(layer, name, build);
    }
  }

  async #write(layer: LayerBlob, name: string, place: LayerPlace, { signal }: LayerBuild): Promise<boolean> {
    const { store, repository, log } = this.#deps;
    let failure: unknown;
    try {
      const source = await store.read(name, undefined, signal);
      const content = pipeline(source, new DigestCheck(hexOf(layer), layer.sizeBytes), () => undefined);
      if (await place.write(layer, content)) return true;
    } catch (error) {
      if (!(error instanceof ContentMissingError || error instanceof StoreError)) throw error;
      failure = error;
    }
    signal.throwIfAborted();
    log.error({ err: failure, digest: layer.digest }, 'a layer of an image could not be read');
    // A store that does not answer may still have it.
    if (!(failure instanceof StoreError)) await repository.discard(name, null);
    return false;
  }

  /** Stores a downloaded layer. Returns false if that fails, which the build does not need. */
  async #keep(layer: LayerBlob, name: string, place: LayerPlace, build: LayerBuild): Promise<boolean> {
    const { repository, store, staging, changes, clock, log } = this.#deps;
    const { orgId, buildId, signal } = build;
    const { sizeBytes } = layer;
    try {
      const incoming = { orgId, sizeBytes, open: () => place.open(layer) };
      await using staged = await staging.take(incoming, sizeBytes, signal);
      if (staged.sha256 !== hexOf(layer) || staged.sizeBytes !== sizeBytes) return false;
      await store.put(staged.file, { sha256: staged.sha256, sizeBytes, name });
      await repository.markStored(name, buildId, clock.now());
      changes.notify(keyOf(build, layer));
      return true;
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error, digest: layer.digest }, 'a layer of an image was not stored');
      return false;
    }
  }

  /** If this fails, a later sweep removes the layer. */
  async #giveUp(layer: LayerBlob, name: string, build: LayerBuild): Promise<void> {
    const { repository, changes, log } = this.#deps;
    await repository.discard(name, build.buildId).catch((error: unknown) => {
      log.warn({ err: error }, 'a layer of an image is removed later');
    });
    changes.notify(keyOf(build, layer));
  }
}

const UNSHARED: LayerClaim = { status: 'unshared' };

function keyOf({ orgId }: LayerBuild, { digest }: LayerBlob): string {
  return `${orgId} ${digest}`;
}

function hexOf({ digest }: LayerBlob): string {
  return digest.slice(SHA256.length);
}
