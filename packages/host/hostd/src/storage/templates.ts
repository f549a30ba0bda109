import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { templateUse } from '@cloche/layout';
import { TemplateVersionManifest } from '@cloche/protocol';
import { Value } from 'typebox/value';
import { errorCode } from '../linux/libc.ts';

export interface TemplateVersion {
  manifest: TemplateVersionManifest;
  rootfsDir: string;
}

/** The template versions that were built on this host. A version never changes once it exists. */
export class Templates {
  readonly #dir: string;
  readonly #recordUse: (name: string) => void;
  readonly #known = new Map<string, TemplateVersion>();

  /**
   * @param dir holds `<slug>/<digest>/{manifest.json,rootfs/}`
   * @param recordUse called with each version that `find` returns
   */
  constructor(dir: string, recordUse: (name: string) => void = () => undefined) {
    this.#dir = dir;
    this.#recordUse = recordUse;
  }

  async list(): Promise<TemplateVersion[]> {
    const versions: TemplateVersion[] = [];
    for (const slug of await readFolder(this.#dir)) {
      for (const digest of await readFolder(join(this.#dir, slug))) {
        const version = await this.#read(join(this.#dir, slug, digest));
        if (version) versions.push(version);
      }
    }
    return versions;
  }

  /** Finds a version for a launch and records its use. */
  async find(id: string): Promise<TemplateVersion | undefined> {
    if (!this.#known.has(id)) for (const version of await this.list()) this.#known.set(version.manifest.id, version);
    const found = this.#known.get(id);
    if (found) this.#recordUse(templateUse(found.manifest.digest));
    return found;
  }

  /** Returns undefined for a folder without a valid manifest: an unfinished build, or one of another release. */
  async #read(dir: string): Promise<TemplateVersion | undefined> {
    const text = await readFile(join(dir, 'manifest.json'), 'utf8').catch(ignoreMissing);
    if (text === undefined) return undefined;
    const manifest: unknown = JSON.parse(text);
    return Value.Check(TemplateVersionManifest, manifest) ? { manifest, rootfsDir: join(dir, 'rootfs') } : undefined;
  }
}

async function readFolder(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(ignoreMissing)) ?? [];
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return undefined;
  throw error;
}
