import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cachePaths } from '@cloche/layout';
import { TemplateVersionManifest } from '@cloche/protocol';
import { Value } from 'typebox/value';

export const CACHE_DIR = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** Folder that keeps the peers from one run of the benchmark to the next. */
export const PEERS_DIR = join(CACHE_DIR, 'bench');

export interface TemplateRoot {
  readonly manifest: TemplateVersionManifest;
  readonly rootfs: string;
}

/** Returns the default template of Cloche's sandboxes: peers get the same files and packages. */
export function newestTemplate(slug = 'python-node'): TemplateRoot {
  const manifests = globSync(join(cachePaths(CACHE_DIR).templatesDir, slug, '*', 'manifest.json'));
  const [newest] = manifests
    .filter((file) => existsSync(join(dirname(file), 'rootfs')))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  if (newest === undefined) throw new Error(`there is no template ${slug} in ${CACHE_DIR}; \`npm start\` makes it`);
  const manifest = Value.Parse(TemplateVersionManifest, JSON.parse(readFileSync(newest, 'utf8')));
  return { manifest, rootfs: join(dirname(newest), 'rootfs') };
}
