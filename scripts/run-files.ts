/**
 * Runs test files in the order in which they are given: Node's command line sorts them, so a long file at the end would
 * keep a stage waiting.
 */
import { createWriteStream } from 'node:fs';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import stageReport from './stage-report.ts';
import terse from './terse-reporter.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Number of files that run at once. */
    concurrency: { type: 'string', default: '1' },
    /** Time of one test, and of one file. */
    'longest-ms': { type: 'string', default: '600000' },
    /** Module that runs before the files and after them. */
    'global-setup': { type: 'string' },
    /** File for the report of the stage. */
    report: { type: 'string', default: '/dev/null' },
  },
});
const globalSetup = values['global-setup'];
/** Ends the processes of the files, as Node's command line does: they would outlive this one. */
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort());
const events = run({
  files: positionals,
  concurrency: Number(values.concurrency),
  timeout: Number(values['longest-ms']),
  signal: interruption.signal,
  ...(globalSetup !== undefined && { globalSetupPath: globalSetup }),
});
events.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
events.compose(process.stdout.isTTY ? spec : terse).pipe(process.stdout);
events.compose(stageReport).pipe(createWriteStream(values.report));
