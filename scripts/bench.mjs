// `npm run bench`
import { ensureDependencies, handOver } from './dependencies.mjs';

ensureDependencies('npm run bench');
handOver('bench/src/main.ts', process.argv.slice(2));
