/**
 * `npm run audit`: asks the registry for known vulnerabilities of what production code depends on. Fails when there are
 * some. Says why when it cannot ask, and then fails nothing.
 */
import { spawnSync } from 'node:child_process';
import { describeAudit } from './audit-report.ts';

const { stdout, error } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8' });
const { text, failed } = describeAudit(error ? JSON.stringify({ message: error.message }) : stdout);
console.log(text);
process.exitCode = failed ? 1 : 0;
