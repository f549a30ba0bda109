import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { type CapturedManifest, CapturedVersion, type CapturedVersionRef } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { syncFolder, writeDurably } from '../base/durable-file.ts';
import { HostdError } from '../base/hostd-error.ts';
import type { Layers } from './layers.ts';

/** A layer of a version, and the folder in the layer that becomes part of the version's root. */
const LayerOfVersion = Type.Object({
  digest: Type.String(),
  /** `/`, or the folder that an image was unpacked in. */
  folder: Type.Union([Type.Literal('/'), Type.Literal('/image')]),
});
export type LayerOfVersion = Static<typeof LayerOfVersion>;

/** Content of the file that describes a version. */
const VersionRecord = Type.Object({
  ...Type.Omit(CapturedVersion, ['layers']).properties,
  layers: Type.Array(LayerOfVersion),
  /**
   * Time of the last capture of the version, in milliseconds. Increases with each capture of any version. Absent if an
   * earlier release of hostd captured the version.
   */
  madeAt: Type.Optional(Type.Integer()),
});
export type VersionRecord = Static<typeof VersionRecord>;

/** Contents of a version, which its digest covers. */
export interface VersionContents {
  purpose: CapturedVersion['purpose'];
  manifest: CapturedManifest;
  base: string | undefined;
  layers: readonly LayerOfVersion[];
}

/** Minimum time between two records of a version's use. */
const NOTE_INTERVAL_MS = 3_600_000;

/**
 * The template versions that were captured from sandboxes of one installation. Each has a small file; layers are shared
 * between versions. A version can be launched as soon as its file exists.
 */
export class CapturedVersions {
  readonly #dir: string;
  readonly #layers: Layers;
  readonly #records = new Map<string, VersionRecord>();
  readonly #usedAt = new Map<string, number>();
  /** Versions that are being removed. */
  readonly #retired = new Set<string>();
  readonly #now: () => number;
  #lastCapturedAt = 0;

  /** Removes unfinished files of interrupted captures, and layers that belong to no version. */
  constructor(dir: string, layers: Layers, now: () => number = Date.now) {
    this.#dir = dir;
    this.#layers = layers;
    this.#now = now;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(dir)) {
      const record = this.#read(name);
      if (record === undefined) {
        rmSync(join(dir, name), { force: true });
        continue;
      }
      this.#records.set(record.id, record);
      this.#usedAt.set(record.id, statSync(join(dir, name)).mtimeMs);
      this.#lastCapturedAt = Math.max(this.#lastCapturedAt, lastCapturedAtOf(record));
    }
    this.removeUnusedLayers();
  }

  /** Returns the record of a version, and notes its use; undefined while it is being removed. */
  find(id: string): VersionRecord | undefined {
    const record = this.#retired.has(id) ? undefined : this.#records.get(id);
    if (record) this.#recordUse(id);
    return record;
  }

  list(): CapturedVersion[] {
    const records = [...this.#records.values()].filter(({ id }) => !this.#retired.has(id));
    return records.map((record) => this.#describe(record));
  }

  /**
   * Returns the versions that only the server removes, as opposed to snapshots, which hostd removes when they are
   * unused.
   */
  listRefs(): CapturedVersionRef[] {
    const versions = [...this.#records.values()].filter(({ purpose }) => purpose === 'version');
    return versions.map((record) => ({ id: record.id, madeAt: lastCapturedAtOf(record) }));
  }

  /** Returns when a version was captured last, or undefined if the host has no such version. */
  lastCapturedAt(id: string): number | undefined {
    const record = this.#records.get(id);
    return record && lastCapturedAtOf(record);
  }

  /** Whether a version is being removed. */
  isRetired(id: string): boolean {
    return this.#retired.has(id);
  }

  /** Hides a version from launches until the result is disposed of. */
  retire(id: string): Disposable {
    this.#retired.add(id);
    return {
      [Symbol.dispose]: () => {
        this.#retired.delete(id);
      },
    };
  }

  /** Returns the ids of the versions built on the host that captured versions are based on. */
  bases(): Set<string> {
    return new Set([...this.#records.values()].flatMap(({ base }) => (base === undefined ? [] : [base])));
  }

  /**
   * Stores a version atomically. Equal contents give the same version; storing it again only increases its `madeAt`.
   * Throws `template_not_found` if a layer is gone: the caller may have found it before the version that it belonged to
   * was removed.
   */
  add({ purpose, manifest, base, layers }: VersionContents): CapturedVersion {
    const missing = layers.find(({ digest }) => this.#layers.find(digest) === undefined);
    if (missing) throw new HostdError('template_not_found', `the layer ${missing.digest} was removed`);
    const contents = { purpose, manifest, ...(base !== undefined && { base }), layers: [...layers] };
    const digest = createHash('sha256').update(sortedJson(contents)).digest('hex');
    const id = `tplv_${digest.slice(0, 20)}`;
    const now = this.#now();
    const capturedAt = this.#records.get(id)?.capturedAt ?? new Date(now).toISOString();
    this.#lastCapturedAt = Math.max(now, this.#lastCapturedAt + 1);
    const record = { id, digest, ...contents, capturedAt, madeAt: this.#lastCapturedAt };
    const draft = join(this.#dir, `${id}.draft`);
    writeDurably(draft, JSON.stringify(record));
    renameSync(draft, this.#fileOf(id));
    syncFolder(this.#dir);
    this.#records.set(id, record);
    this.#usedAt.set(id, now);
    return this.#describe(record);
  }

  /** Removes a version, and the layers that no other version has. Idempotent. */
  remove(id: string): void {
    if (!this.#records.delete(id)) return;
    this.#usedAt.delete(id);
    rmSync(this.#fileOf(id), { force: true });
    syncFolder(this.#dir);
    this.removeUnusedLayers();
  }

  /** Returns the ids of the snapshots whose last use was before `time`. */
  snapshotsUnusedSince(time: number): string[] {
    return [...this.#records.values()]
      .filter(({ id, purpose }) => purpose === 'snapshot' && (this.#usedAt.get(id) ?? 0) < time)
      .map(({ id }) => id);
  }

  #recordUse(id: string): void {
    const now = this.#now();
    if (now - (this.#usedAt.get(id) ?? 0) < NOTE_INTERVAL_MS) return;
    this.#usedAt.set(id, now);
    utimesSync(this.#fileOf(id), now / 1000, now / 1000);
  }

  /** Removes layers that belong to no version, except those that a launch is using. */
  removeUnusedLayers(): void {
    const used = new Set([...this.#records.values()].flatMap(({ layers }) => layers.map(({ digest }) => digest)));
    for (const digest of this.#layers.digests()) {
      if (!used.has(digest) && !this.#layers.isOpen(digest)) this.#layers.remove(digest);
    }
  }

  #describe({ layers, madeAt: _, ...record }: VersionRecord): CapturedVersion {
    const sized = layers.map(({ digest }) => ({ digest, bytes: this.#layers.find(digest)?.bytes ?? 0 }));
    return { ...record, layers: sized };
  }

  #fileOf(id: string): string {
    return join(this.#dir, `${id}.json`);
  }

  /** Returns undefined for a file that does not describe a version, or whose layers are gone. */
  #read(name: string): VersionRecord | undefined {
    if (!name.endsWith('.json')) return undefined;
    const record: unknown = JSON.parse(readFileSync(join(this.#dir, name), 'utf8'));
    if (!Value.Check(VersionRecord, record)) return undefined;
    return record.layers.every(({ digest }) => this.#layers.find(digest)) ? record : undefined;
  }
}

function lastCapturedAtOf({ madeAt, capturedAt }: VersionRecord): number {
  return madeAt ?? Date.parse(capturedAt);
}

/** Returns JSON with sorted keys, so that equal contents have equal digests. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
