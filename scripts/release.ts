/**
 * `npm run release`: makes what is installed on machines, in `dist`. `npm run release:deb` and the like make one part.
 * Publishes nothing.
 *
 *   --out FOLDER       in place of dist
 *   --arch x64         only this architecture
 *   --version VERSION  in place of that of the packages
 *   --sign-with KEY    signs checksums and the index by this key of gpg
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { writeAptIndex } from './distribution/apt-index.ts';
import { packArchive } from './distribution/archive.ts';
import { writeBillOfMaterials } from './distribution/bill-of-materials.ts';
import { writeChecksums } from './distribution/checksums.ts';
import { packDebian } from './distribution/debian-package.ts';
import { runNpm } from './distribution/npm.ts';
import { ARCHITECTURES, type Architecture, buildTree, type Tree } from './distribution/tree.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string', default: 'dist' },
    arch: { type: 'string', multiple: true, default: Object.keys(ARCHITECTURES) },
    version: { type: 'string', default: JSON.parse(readFileSync('packages/clients/cli/package.json', 'utf8')).version },
    'sign-with': { type: 'string' },
  },
});
const { version, 'sign-with': key } = values;
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

/** Parts that are made of the tree of each architecture. */
const OF_TREES: Record<string, (tree: Tree) => string | Promise<string>> = {
  deb: (tree) => packDebian(tree, out, { version }),
  archive: (tree) => packArchive(tree, out, version),
  sbom: (tree) => writeBillOfMaterials(tree, out, version),
};
const PARTS = [...Object.keys(OF_TREES), 'index', 'checksums'];

const [part] = positionals;
if (positionals.length > 1 || (part !== undefined && !PARTS.includes(part))) {
  throw new Error(`The parts of a release are ${PARTS.join(', ')}.`);
}
const wanted = part === undefined ? PARTS : [part];
const makers = wanted.flatMap((name) => OF_TREES[name] ?? []);
for (const architecture of makers.length > 0 ? values.arch : []) {
  using tree = buildTree(architecture as Architecture, version);
  for (const make of makers) console.log(await make(tree));
}
if (part === undefined)
  process.stdout.write(
    runNpm('.', 'run', '--if-present', 'release:templates', '--', '--out', out, '--version', version),
  );
if (wanted.includes('index')) writeAptIndex(out, key);
if (wanted.includes('checksums')) console.log(writeChecksums(out, version, key).join('\n'));
if (key === undefined) console.log('Unsigned: --sign-with KEY signs the checksums and the index.');
