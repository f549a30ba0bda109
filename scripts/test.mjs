// `npm test`
import { ensureDependencies, handOver } from './dependencies.mjs';

ensureDependencies('npm test');
handOver('scripts/run-tests.ts', process.argv.slice(2));
