/**
 * `npm run release`: makes everything that a release consists of in `dist`, and checks it from empty folders. `npm run
 * release:deb` and the like make one part. Publishes nothing and sets no tag. docs/releasing.md has the steps.
 *
 *   --out FOLDER       in place of dist
 *   --arch x64         only this architecture
 *   --sign-with KEY    signs checksums and the index by this key of gpg
 */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { writeAptIndex } from './distribution/apt-index.ts';
import { packArchive } from './distribution/archive.ts';
import { writeBillOfMaterials } from './distribution/bill-of-materials.ts';
import { writeChecksums } from './distribution/checksums.ts';
import { packDebian } from './distribution/debian-package.ts';
import { runNpm } from './distribution/npm.ts';
import { ARCHITECTURES, type Architecture, buildTree, type Tree } from './distribution/tree.ts';
import { checkRelease } from './release/check-release.ts';
import { requireTools } from './release/needed-tools.ts';
import { packNpm, packPython } from './release/packages.ts';
import { releaseVersion } from './release/version.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: 'dist' },
    arch: { type: 'string', multiple: true, default: Object.keys(ARCHITECTURES) },
    'sign-with': { type: 'string' },
  },
});
const key = values['sign-with'];
const version = releaseVersion();
const out = resolve(values.out);
const architectures = values.arch as Architecture[];
mkdirSync(out, { recursive: true });

/** Parts that are made of the tree of each architecture. */
const OF_TREES: Record<string, (tree: Tree) => string | Promise<string>> = {
  deb: (tree) => packDebian(tree, out, { version }),
  archive: (tree) => packArchive(tree, out, version),
  sbom: (tree) => writeBillOfMaterials(tree, out, version),
};
/** Parts that are made after these, in this order. Each returns lines to print. */
const FURTHER: Record<string, () => readonly string[] | Promise<readonly string[]>> = {
  npm: () => packNpm(out),
  python: () => packPython(out),
  templates: exportTemplates,
  index() {
    writeAptIndex(out, key);
    return [];
  },
  checksums: () => writeChecksums(out, version, key),
  async check() {
    await checkRelease({ out, version, architectures, isSigned: key !== undefined });
    return [];
  },
};
const PARTS = [...Object.keys(OF_TREES), ...Object.keys(FURTHER)];

const [part] = positionals;
if (positionals.length > 1 || (part !== undefined && !PARTS.includes(part))) {
  throw new Error(`The parts of a release are ${PARTS.join(', ')}.`);
}
const wanted = part === undefined ? PARTS : [part];
requireTools(key === undefined ? wanted : [...wanted, 'signature']);
const makers = wanted.flatMap((name) => OF_TREES[name] ?? []);
for (const architecture of makers.length > 0 ? architectures : []) {
  using tree = buildTree(architecture, version);
  for (const make of makers) console.log(await make(tree));
}
for (const name of wanted) for (const line of (await FURTHER[name]?.()) ?? []) console.log(line);
if (key === undefined) console.log('Unsigned: --sign-with KEY signs the checksums and the index.');
if (part === undefined) console.log(`The tag of this commit: v${version}`);

function exportTemplates(): string[] {
  if (process.getuid?.() !== 0) return ['- no archive of templates: only root can make it'];
  return [runNpm('.', 'run', 'release:templates', '--', '--out', out)];
}
