import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { syncFolder, writeDurably } from '../base/durable-file.ts';
import { HostdError } from '../base/hostd-error.ts';
import { errorCode } from '../linux/libc.ts';
import { attachLoopDevice } from '../linux/loop-device.ts';
import { detachMount, MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, mountDisk } from '../linux/mounts.ts';

/** Properties of a layer, beside its image. */
const LayerInfo = Type.Object({
  /** SHA-256 of the image's contents and of `firstId`. */
  digest: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  /** Bytes of the image on the disk of the host. */
  bytes: Type.Integer({ minimum: 0 }),
  /** Host id that the root of the captured sandbox had. Files belong to this id and those after it. */
  firstId: Type.Integer({ minimum: 0 }),
});
export type LayerInfo = Static<typeof LayerInfo>;

const INFO_FILE = 'layer.json';
const IMAGE_FILE = 'disk.img';

/** A mounted layer. */
export interface MountedLayer extends LayerInfo {
  /** Mount point of the captured disk, visible only in hostd's own mount namespace. */
  dir: string;
}

/** Layers that stay mounted until they are disposed of. */
export interface OpenLayers extends Disposable {
  readonly layers: readonly MountedLayer[];
}

interface Mount {
  ready: Promise<MountedLayer>;
  users: number;
  lastUsedAt: number;
}

/**
 * The layers of one installation: immutable images of the disks of captured sandboxes, named by their digests. An image
 * is mounted read-only before its first use and stays mounted for a while. Mounts end with this process.
 */
export class Layers {
  readonly #dir: string;
  readonly #mountsDir: string;
  readonly #known = new Map<string, LayerInfo>();
  readonly #mounts = new Map<string, Mount>();

  /** Removes what interrupted captures left. */
  constructor(dir: string, mountsDir: string) {
    this.#dir = dir;
    this.#mountsDir = mountsDir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(dir)) {
      const info = readInfo(join(dir, name));
      if (info?.digest === name) this.#known.set(name, info);
      else rmSync(join(dir, name), { recursive: true, force: true });
    }
  }

  find(digest: string): LayerInfo | undefined {
    return this.#known.get(digest);
  }

  digests(): string[] {
    return [...this.#known.keys()];
  }

  /** Returns the path of a new folder for an image, which `publish` or the next start of hostd removes. */
  makeDraft(name: string): { folder: string; image: string } {
    const folder = join(this.#dir, `draft-${name}`);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { mode: 0o700 });
    return { folder, image: join(folder, IMAGE_FILE) };
  }

  /**
   * Makes a draft a layer, in one step. The caller has already written the image to the disk. If the layer exists,
   * removes the draft instead.
   */
  publish(folder: string, info: LayerInfo): void {
    if (this.#known.has(info.digest)) {
      rmSync(folder, { recursive: true });
      return;
    }
    writeDurably(join(folder, INFO_FILE), JSON.stringify(info));
    syncFolder(folder);
    renameSync(folder, join(this.#dir, info.digest));
    syncFolder(this.#dir);
    this.#known.set(info.digest, info);
  }

  /** Mounts layers that are not mounted yet. All of them stay mounted until the result is disposed of. */
  async open(digests: readonly string[]): Promise<OpenLayers> {
    const mounts = digests.map((digest) => this.#use(digest));
    const release = () => {
      for (const mount of mounts) {
        mount.users -= 1;
        mount.lastUsedAt = performance.now();
      }
    };
    try {
      return { layers: await Promise.all(mounts.map(({ ready }) => ready)), [Symbol.dispose]: release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Detaches layers that were not used for `idleMs`. Running sandboxes keep the layers that they use. */
  closeIdle(idleMs: number): void {
    for (const [digest, { users, lastUsedAt }] of this.#mounts) {
      if (users === 0 && performance.now() - lastUsedAt >= idleMs) this.#unmount(digest);
    }
  }

  isOpen(digest: string): boolean {
    return (this.#mounts.get(digest)?.users ?? 0) > 0;
  }

  /** Removes a layer that belongs to no version. Running sandboxes can still read its files. */
  remove(digest: string): void {
    if (this.#mounts.has(digest)) this.#unmount(digest);
    this.#known.delete(digest);
    rmSync(join(this.#dir, digest), { recursive: true, force: true });
  }

  #use(digest: string): Mount {
    const known = this.#mounts.get(digest);
    if (known) {
      known.users += 1;
      return known;
    }
    const mount = { ready: this.#mount(digest), users: 1, lastUsedAt: performance.now() };
    this.#mounts.set(digest, mount);
    mount.ready.catch(() => this.#mounts.delete(digest));
    return mount;
  }

  async #mount(digest: string): Promise<MountedLayer> {
    const info = this.#known.get(digest);
    if (info === undefined) throw new HostdError('template_not_found', `the layer ${digest} was removed`);
    const dir = this.#mountPoint(digest);
    // The image is opened read-only, so the device is read-only too. Both descriptors are closed here; the mount keeps
    // the device attached.
    const image = openSync(join(this.#dir, digest, IMAGE_FILE), 'r');
    try {
      const device = attachLoopDevice(image);
      try {
        mkdirSync(dir, { mode: 0o711 });
        await mountDisk({
          type: 'ext4',
          source: device.path,
          target: dir,
          flags: MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOATIME,
        });
      } catch (error) {
        rmdirSync(dir);
        throw error;
      } finally {
        closeSync(device.fd);
      }
    } finally {
      closeSync(image);
    }
    return { ...info, dir };
  }

  #unmount(digest: string): void {
    const dir = this.#mountPoint(digest);
    this.#mounts.delete(digest);
    detachMount(dir);
    rmdirSync(dir);
  }

  #mountPoint(digest: string): string {
    return join(this.#mountsDir, `layer-${digest}`);
  }
}

function readInfo(folder: string): LayerInfo | undefined {
  try {
    const info: unknown = JSON.parse(readFileSync(join(folder, INFO_FILE), 'utf8'));
    return Value.Check(LayerInfo, info) ? info : undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR' || error instanceof SyntaxError)
      return undefined;
    throw error;
  }
}
