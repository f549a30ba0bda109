/**
 * `npm run pack`: packs what strangers install from npm and PyPI into `dist`, without root. Publishes nothing. `--out`
 * names another folder.
 */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { packNpm, packPython } from './release/packages.ts';

const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
const out = resolve(values.out);
for (const line of [...(await packNpm(out)), ...packPython(out)]) console.log(line);
