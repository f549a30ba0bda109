/**
 * `npm run release:templates`: writes `cloche-templates-VERSION.tar` into `dist`, with the curated templates and guest
 * files of this checkout for machines without registries. As root; builds templates that the cache lacks. `--out` names
 * another folder.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { releaseVersion } from './release/version.ts';

const CLI = join(import.meta.dirname, '../packages/clients/cli');

const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
mkdirSync(values.out, { recursive: true });
const file = join(values.out, `cloche-templates-${releaseVersion()}.tar`);
const command = [join(CLI, 'bin/cloche.mjs'), 'template', 'export', file];
process.exitCode = spawnSync(process.execPath, command, { stdio: 'inherit' }).status ?? 1;
