import type { CapturedManifest } from '@cloche/protocol';
import { HostdError } from '../base/hostd-error.ts';
import type { CapturedVersions, LayerOfVersion } from './captured-versions.ts';
import type { Templates, TemplateVersion } from './templates.ts';

/** A version that instances can be launched from. */
export interface LaunchableVersion {
  manifest: { id: string } & CapturedManifest;
  /** Root file system that was built on the host. Undefined if the layers hold the whole root. */
  rootfsDir: string | undefined;
  /** Layers of captured sandboxes, the uppermost first; none for a version that was built on the host. */
  layers: readonly LayerOfVersion[];
}

/**
 * Returns whether the kernels of a version are forked by a zygote inside the sandbox instead of the host's zygote.
 *
 * SECURITY: the host's zygote runs as root outside of all sandboxes, so it may load only files that were built on the
 * host. A layer contains files of a client, and Python modules among them would run in the zygote when they are
 * imported (captured-versions.runtime.test.ts).
 */
export function hasOwnZygote({ layers, manifest }: LaunchableVersion): boolean {
  return layers.length > 0 || manifest.warm !== undefined;
}

/** All versions of this host: those that were built on it, and those that were captured from its sandboxes. */
export class LaunchableVersions {
  readonly #templates: Templates;
  readonly #captured: CapturedVersions;

  constructor(templates: Templates, captured: CapturedVersions) {
    this.#templates = templates;
    this.#captured = captured;
  }

  /** Returns the versions that were built on this host. */
  listBuilt(): Promise<TemplateVersion[]> {
    return this.#templates.list();
  }

  listCaptured(): { id: string }[] {
    return this.#captured.list();
  }

  /** Whether a version is being removed. */
  isRetired(id: string): boolean {
    return this.#captured.isRetired(id);
  }

  /** Returns a version for a launch and notes its use. Throws `template_not_found`. */
  async get(id: string): Promise<LaunchableVersion> {
    const found = await this.find(id);
    if (found === undefined)
      throw new HostdError('template_not_found', `this host does not have the template version ${id}`);
    return found;
  }

  /** Finds a version for a launch and notes its use. */
  async find(id: string): Promise<LaunchableVersion | undefined> {
    const captured = this.#captured.find(id);
    if (captured === undefined) {
      const built = await this.#templates.find(id);
      return built && { ...built, layers: [] };
    }
    const { manifest, base, layers } = captured;
    const below = base === undefined ? undefined : await this.#templates.find(base);
    if (base !== undefined && below === undefined) return undefined;
    return { manifest: { id, ...manifest }, rootfsDir: below?.rootfsDir, layers };
  }
}
