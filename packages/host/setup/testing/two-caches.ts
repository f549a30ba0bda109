/** A template version with entries of every kind, and guest files, which go from one cache to another in an archive. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { chmod, chown, link, symlink, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportTemplates } from '../src/template-archive/export-templates.ts';
import { type ImportedPart, type ImportOptions, importTemplates } from '../src/template-archive/import-templates.ts';
import { ensureTemplate } from '../src/templates/build-template.ts';
import type { TemplateVersion } from '../src/templates/cached-versions.ts';
import { makeSmallRoot, SMALL_RECIPE } from './small-template.ts';

const LONG = `${'n'.repeat(200)}/${'m'.repeat(200)}`;
const SET_ATTRIBUTES = `
import os, sys
os.setxattr(sys.argv[1], "user.note", bytes(range(256)))
os.setxattr(sys.argv[1], "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))`;

/** Two cache folders, and a file for the archive between them. */
export class TwoCaches implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'cloche-archive-'));
  readonly from = join(this.folder, 'from');
  readonly to = join(this.folder, 'to');
  readonly archive = join(this.folder, 'templates.tar');
  readonly guestDigest = 'a'.repeat(32);
  readonly guestDir = join(this.from, 'guest', this.guestDigest);
  #version: TemplateVersion | undefined;

  /** Returns caches of which the first one has a template version and guest files. */
  static async make(): Promise<TwoCaches> {
    const caches = new TwoCaches();
    caches.#version = await ensureTemplate(SMALL_RECIPE, { cacheDir: caches.from, makeRoot: makeVariedRoot });
    mkdirSync(join(caches.guestDir, 'bin'), { recursive: true, mode: 0o755 });
    writeFileSync(join(caches.guestDir, 'bin/node'), 'program', { mode: 0o755 });
    return caches;
  }

  get version(): TemplateVersion {
    if (!this.#version) throw new Error('make the caches first');
    return this.#version;
  }

  async write(signal?: AbortSignal): Promise<void> {
    const { archive, from: cacheDir, version, guestDir } = this;
    await exportTemplates(archive, { cacheDir, templates: [version], guestDir, ...(signal && { signal }) });
  }

  read(options: Partial<ImportOptions> = {}): Promise<ImportedPart[]> {
    return importTemplates(this.archive, { cacheDir: this.to, ...options });
  }

  /** Returns what is in the second cache, besides the locks and logs of builds. */
  cached(): string[] {
    if (!existsSync(this.to)) return [];
    // Node follows links to directories.
    const found = execFileSync('find', [this.to, '-mindepth', '1', '-printf', '%P\\0'], { encoding: 'utf8' });
    const isNote = (name: string) => /^building(\/[^/]*\.(lock|log))?$/.test(name);
    return found.split('\0').filter((name) => name !== '' && !isNote(name));
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }
}

/** Makes entries of every kind that a template can have. */
async function makeVariedRoot(root: string): Promise<void> {
  await makeSmallRoot(root);
  const at = (name: string) => join(root, name);
  mkdirSync(at(LONG), { recursive: true });
  writeFileSync(at(`${LONG}/deep`), 'deep');
  writeFileSync(at('large'), Buffer.alloc(3_000_001, 'large'));
  writeFileSync(at('su'), 'program');
  await chown(at('su'), 0, 65_534);
  await chmod(at('su'), 0o6755);
  execFileSync('python3', ['-c', SET_ATTRIBUTES, at('large')]);
  await link(at('su'), at('zz-same'));
  await symlink('/etc/passwd', at('absolute'));
  await symlink('../../../../..', at('climbing'));
  mkdirSync(at('home'), { mode: 0o750 });
  await chown(at('home'), 1000, 1001);
  writeFileSync(at('home/naïve \n name'), '', { mode: 0o400 });
  await utimes(at('home/naïve \n name'), 1, 1234);
}
