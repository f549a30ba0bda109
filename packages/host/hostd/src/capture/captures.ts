import { createHash } from 'node:crypto';
import { closeSync, ftruncateSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type CapturedVersion, type CaptureInstance, type DeriveVersion, MAX_LAYERS } from '@cloche/protocol';
import type { Logger } from 'pino';
import { HostdError } from '../base/hostd-error.ts';
import { idRangeOfSlot } from '../base/id-range.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey, InstanceName } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord } from '../instance/instance-records.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import type { Instances } from '../instances/instances.ts';
import { type ByteRange, sumOf } from '../linux/used-ranges.ts';
import type { Runtime } from '../oci/runtime.ts';
import type { CapturedVersions, LayerOfVersion } from '../storage/captured-versions.ts';
import type { DiskImages } from '../storage/disk-image.ts';
import type { DiskReservations } from '../storage/disk-reservations.ts';
import type { LaunchableVersion, LaunchableVersions } from '../storage/launchable-versions.ts';
import type { LayerInfo, Layers } from '../storage/layers.ts';
import { CapturedDisk } from './captured-disk.ts';
import { copyRanges } from './copy-ranges.ts';

/** Longest time for the copy of a disk. */
const COPY_MS = 10 * 60_000;

export interface CapturesDeps {
  instances: Instances;
  records: InstanceRecords;
  runtime: Pick<Runtime, 'writeBack'>;
  cgroups: Cgroups;
  diskImages: DiskImages;
  diskReservations: DiskReservations;
  layers: Layers;
  versions: LaunchableVersions;
  captured: CapturedVersions;
  removeInstance: (key: InstanceKey) => Promise<void>;
  /** Mount points, visible only in hostd's own mount namespace. */
  mountsDir: string;
  log: Logger;
}

/** Makes template versions from the files that instances have written to their disks. */
export class Captures {
  readonly #host: CapturesDeps;
  readonly #stopping = new AbortController();

  constructor(deps: CapturesDeps) {
    this.#host = deps;
  }

  /** Ends the copies under way; their callers get `no_capacity`. */
  abort(): void {
    this.#stopping.abort(new HostdError('no_capacity', 'hostd is stopping'));
  }

  /**
   * Ends an instance and makes a version of its files. Rejects with `instance_not_found`, `capture_refused` or
   * `no_capacity`; the instance has ended in each case but the first. An abort ends the copy.
   */
  async capture(name: InstanceName, request: CaptureInstance, signal: AbortSignal): Promise<CapturedVersion> {
    const { instances, versions, captured, removeInstance } = this.#host;
    return instances.runAlone(name, async (key, living) => {
      try {
        const id = versionOfSource(living.source);
        const version = await versions.find(id);
        if (version === undefined) throw new HostdError('template_not_found', `the version ${id} was removed`);
        const layers = layersBelow(version, request.root);
        const digest = await this.#captureLayer(key, living, request, signal);
        const folder = request.root === 'image' ? '/image' : '/';
        // The version is added right after its layer was published, without I/O in between, so that the layer is not
        // removed as unused.
        return captured.add({
          purpose: request.purpose,
          manifest: request.manifest,
          base: request.root === 'image' ? undefined : baseOf(version, captured),
          layers: [{ digest, folder }, ...layers],
        });
      } finally {
        await removeInstance(key);
      }
    });
  }

  /** Makes a version with the files of another one. Throws `template_not_found`. */
  async derive({ from, purpose, manifest }: DeriveVersion): Promise<CapturedVersion> {
    const { versions, captured } = this.#host;
    const version = await versions.get(from);
    return captured.add({ purpose, manifest, base: baseOf(version, captured), layers: version.layers });
  }

  async #captureLayer(
    key: InstanceKey,
    living: LiveRecord,
    request: CaptureInstance,
    signal: AbortSignal,
  ): Promise<string> {
    const { records, runtime, cgroups, diskImages, diskReservations, mountsDir, log } = this.#host;
    const startedAt = performance.now();
    const dir = join(mountsDir, `capture-${key}`);
    using disk = await CapturedDisk.open(living.loopDevice, diskImages.shownPath(key, living.image), dir);
    // From here on, a hostd that starts anew removes the instance.
    records.write(key, { ...living, status: 'ending' });
    // A frozen guest could not end by itself.
    cgroups.freezer.thaw(key);
    // A guest that does not end is killed like any other, and loses what it has not written.
    await runtime
      .writeBack({ key, bundleDir: records.folderOf(key) }, living.init)
      .catch((err) => log.warn({ operation: 'capture', instance: key, err }));
    await cgroups.destroy(key);
    await disk.settle();
    if (request.root === 'image' && !disk.hasFolder('image'))
      throw refused('/image is not a folder that was made in the sandbox');
    const ranges = await usedRangesOf(disk, living.diskBytes);
    const bytes = sumOf(ranges);
    if (bytes > (request.maxBytes ?? Number.POSITIVE_INFINITY))
      throw refused(`the sandbox has changed ${bytes} bytes, and ${request.maxBytes} are allowed`);
    diskReservations.assertFree(bytes);
    const info = await this.#copy(key, living, { ranges, deviceFd: disk.deviceFd }, signal);
    log.info({ operation: 'capture', instance: key, ...info, durationMs: Math.round(performance.now() - startedAt) });
    return info.digest;
  }

  /** Copies the disk to a draft and publishes it as a layer. */
  async #copy(
    key: InstanceKey,
    { slot, diskBytes = 0, firstId = idRangeOfSlot(slot).base }: LiveRecord,
    { ranges, deviceFd }: { ranges: readonly ByteRange[]; deviceFd: number },
    signal: AbortSignal,
  ): Promise<LayerInfo> {
    const { layers } = this.#host;
    const draft = layers.makeDraft(key);
    try {
      const imageFd = openSync(draft.image, 'wx', 0o600);
      try {
        ftruncateSync(imageFd, diskBytes);
        const either = AbortSignal.any([signal, this.#stopping.signal, AbortSignal.timeout(COPY_MS)]);
        const copied = await copyRanges({ ranges, deviceFd, imageFd }, either);
        const digest = createHash('sha256').update(`${copied.digest} ${diskBytes} ${firstId}`).digest('hex');
        const info = { digest, bytes: copied.bytes, firstId };
        layers.publish(draft.folder, info);
        return info;
      } finally {
        closeSync(imageFd);
      }
    } finally {
      rmSync(draft.folder, { recursive: true, force: true });
    }
  }
}

async function usedRangesOf(disk: CapturedDisk, diskBytes: number): Promise<readonly ByteRange[]> {
  try {
    return await disk.usedRanges(diskBytes);
  } catch (error) {
    if (error instanceof RangeError) throw refused(error.message);
    throw error;
  }
}

/** Returns the layers under that of the capture. */
function layersBelow({ layers }: LaunchableVersion, root: CaptureInstance['root']): readonly LayerOfVersion[] {
  if (root === 'image' && layers.length > 0)
    throw refused('an image is captured from a sandbox of a version that was built on the host, and of no other');
  if (layers.length >= MAX_LAYERS) throw refused(`the version would have more than ${MAX_LAYERS} layers`);
  return layers;
}

function baseOf({ manifest }: LaunchableVersion, captured: CapturedVersions): string | undefined {
  const record = captured.find(manifest.id);
  return record ? record.base : manifest.id;
}

function refused(message: string): HostdError {
  return new HostdError('capture_refused', message);
}
