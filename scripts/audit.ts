/**
 * `npm run audit`: asks the registry for known vulnerabilities in the dependencies of production code. Fails if there
 * are any. If the registry cannot be asked, prints the reason and does not fail.
 */
import { spawnSync } from 'node:child_process';
import { describeAudit } from './audit-report.ts';

const { stdout, error } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8' });
const { text, failed } = describeAudit(error ? JSON.stringify({ message: error.message }) : stdout);
console.log(text);
process.exitCode = failed ? 1 : 0;
