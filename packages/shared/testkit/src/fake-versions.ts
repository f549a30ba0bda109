import { createHash } from 'node:crypto';
import type { CapturedVersion, CapturedVersionRef, CaptureInstance, DeriveVersion } from '@cloche/protocol';
import { CaptureError, LaunchError } from '@cloche/runtime';
import { FakeDisk } from './fake-disk.ts';

export interface FakeVersion {
  readonly captured: CapturedVersion;
  readonly disk: FakeDisk;
  readonly madeAt: number;
}

/** The versions that a fake host has captured. */
export class FakeVersions {
  readonly byId = new Map<string, FakeVersion>();
  readonly #now: () => number;
  #lastCapturedAt = 0;

  /** @param now the clock of the host. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Captures the disk of an instance that was launched from a version. */
  capture(disk: FakeDisk, templateVersionId: string, request: CaptureInstance): CapturedVersion {
    const below = this.byId.get(templateVersionId)?.captured;
    const contents = [...disk.files].map(([path, { bytes }]) => [path, bytes.toString('base64')]);
    const layer = { digest: digestOf([below?.layers ?? [], contents]), bytes: JSON.stringify(contents).length };
    if (layer.bytes > (request.maxBytes ?? Number.POSITIVE_INFINITY))
      throw new CaptureError(
        'refused',
        `the sandbox has changed ${layer.bytes} bytes, and ${request.maxBytes} are allowed`,
      );
    return this.#keep(disk, request, {
      base: below?.base ?? templateVersionId,
      layers: [layer, ...(below?.layers ?? [])],
    });
  }

  /** @param isBuilt tells whether the host has a built version of that id. */
  derive({ from, ...request }: DeriveVersion, isBuilt: (id: string) => boolean): CapturedVersion {
    const version = this.byId.get(from);
    if (!version && !isBuilt(from)) throw new LaunchError('template_not_found', `no template version ${from}`);
    const { base = from, layers = [] } = version?.captured ?? {};
    return this.#keep(version?.disk ?? new FakeDisk(), request, { base, layers });
  }

  refs(): CapturedVersionRef[] {
    const versions = [...this.byId].filter(([, { captured }]) => captured.purpose === 'version');
    return versions.map(([id, { madeAt }]) => ({ id, madeAt }));
  }

  remove({ id, madeAt }: CapturedVersionRef): void {
    if ((this.byId.get(id)?.madeAt ?? 0) > madeAt) throw new CaptureError('in_use', 'it was captured again');
    this.byId.delete(id);
  }

  #keep(
    disk: FakeDisk,
    { purpose, manifest }: Pick<CaptureInstance, 'purpose' | 'manifest'>,
    files: Pick<CapturedVersion, 'layers' | 'base'>,
  ): CapturedVersion {
    const digest = digestOf([purpose, manifest, files]);
    const id = `tplv_${digest.slice(0, 20)}`;
    const captured = { id, digest, purpose, manifest, ...files, capturedAt: new Date().toISOString() };
    this.#lastCapturedAt = Math.max(this.#now(), this.#lastCapturedAt + 1);
    this.byId.set(id, { captured, disk: disk.copy(), madeAt: this.#lastCapturedAt });
    return captured;
  }
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}
