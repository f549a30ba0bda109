/**
 * `npm run release:templates`: writes `cloche-templates-VERSION.tar` into `dist`, with the curated templates and guest
 * files of this checkout for machines without registries. As root; builds templates that the cache lacks. `--out` names
 * another folder, `--version` another version than that of the command line.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const CLI = join(import.meta.dirname, '../packages/clients/cli');

const { version } = JSON.parse(readFileSync(join(CLI, 'package.json'), 'utf8')) as { version: string };
const { values } = parseArgs({
  options: { out: { type: 'string', default: 'dist' }, version: { type: 'string', default: version } },
});
mkdirSync(values.out, { recursive: true });
const file = join(values.out, `cloche-templates-${values.version}.tar`);
const command = [join(CLI, 'bin/cloche.mjs'), 'template', 'export', file];
process.exitCode = spawnSync(process.execPath, command, { stdio: 'inherit' }).status ?? 1;
