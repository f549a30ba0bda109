// `npm test`
import { ensureDependencies, handOver } from './dependencies.mjs';

const args = process.argv.slice(2);
const needsRoot = !['quick', '--help', '-h'].includes(args[0]);
ensureDependencies('npm test', { needsRoot });
handOver('scripts/run-tests.ts', args);
