// `npm start`
import { ensureDependencies, handOver } from './dependencies.mjs';

ensureDependencies('npm start');
handOver('packages/host/setup/src/main.ts', ['start', ...process.argv.slice(2)]);
