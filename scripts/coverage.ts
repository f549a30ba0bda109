/** `npm run coverage`: runs the unit tests and prints the part of each package that they reach. */
import { spawnSync } from 'node:child_process';
import { unitTests } from './unit-tests.ts';

const { status } = spawnSync(
  process.execPath,
  [
    '--test',
    '--test-timeout=300000',
    '--experimental-test-coverage',
    '--test-coverage-include=packages/*/*/src/**/*.ts',
    '--test-coverage-exclude=**/*.test.ts',
    '--test-coverage-exclude=**/testing/**',
    '--test-reporter=./scripts/coverage-reporter.ts',
    '--test-reporter-destination=stdout',
    ...unitTests().sort(),
  ],
  { stdio: 'inherit' },
);
process.exitCode = status ?? 1;
