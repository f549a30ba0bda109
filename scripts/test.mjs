// `npm test`
import { ensureDependencies, handOver } from './dependencies.mjs';

const args = process.argv.slice(2);
// Another user runs the stages that need no root, which check nothing of the machine.
const needsRoot = process.getuid() === 0 && !['quick', '--help', '-h'].includes(args[0]);
ensureDependencies('npm test', { needsRoot });
handOver('scripts/run-tests.ts', args);
