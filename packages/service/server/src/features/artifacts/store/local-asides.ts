import { randomUUID } from 'node:crypto';
import { link, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ContentAsides, ContentName, SetAsideContent } from './artifact-store.ts';
import { flush } from './flush.ts';

/** The random part gives each removal a file of its own, so that a late step of one does not touch that of another. */
const ASIDE = /^([0-9a-f]{64})\.aside-[0-9a-f-]{36}$/;

/** Sets contents of a folder aside, as `<name>.aside-<random>` beside them. */
export class LocalAsides implements ContentAsides {
  readonly #folder: string;
  readonly #fileOf: (name: ContentName) => string;

  constructor(folder: string, fileOf: (name: ContentName) => string) {
    this.#folder = folder;
    this.#fileOf = fileOf;
  }

  async setAside(name: ContentName): Promise<SetAsideContent | undefined> {
    const place = this.#fileOf(name);
    const aside = `${place}.aside-${randomUUID()}`;
    try {
      await rename(place, aside);
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
    return this.#open(name, aside);
  }

  async *list(): AsyncGenerator<SetAsideContent> {
    for (const group of await readdir(this.#folder).catch(() => [])) {
      for (const file of await readdir(join(this.#folder, group)).catch(() => [])) {
        const name = ASIDE.exec(file)?.[1];
        if (name !== undefined) yield this.#open(name, join(this.#folder, group, file));
      }
    }
  }

  /** Returns the paths of a content that is set aside. Each may be gone when it is opened. */
  async filesOf(name: ContentName): Promise<string[]> {
    const place = this.#fileOf(name);
    const files = await readdir(dirname(place)).catch(() => []);
    return files
      .filter((file) => file.startsWith(basename(place)) && ASIDE.test(file))
      .map((file) => join(dirname(place), file));
  }

  #open(name: ContentName, aside: string): SetAsideContent {
    const place = this.#fileOf(name);
    return {
      name,
      async putBack() {
        try {
          // Not `rename`, which would replace a content stored meanwhile, and do nothing if both are one file.
          await link(aside, place);
        } catch (error) {
          if (hasCode(error, 'ENOENT')) return;
          if (!hasCode(error, 'EEXIST')) throw error;
        }
        await flush(dirname(place));
        await rm(aside, { force: true });
      },
      remove: () => rm(aside, { force: true }),
    };
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
