/**
 * Writes one line of JSON at the end: the numbers of passed, failed and skipped tests, the text of the failures, and
 * the time of each file.
 */
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { FailureTexts, isOfProcess, isUncounted } from './failure-texts.ts';
import { FileCounts } from './file-counts.ts';

export interface StageReport {
  passed: number;
  failed: number;
  skipped: number;
  failures: string;
  /** Paths of the test files that failed. */
  failedFiles: string[];
  /** Seconds that the tests of a file took, by its path. */
  seconds: Record<string, number>;
}

export default async function* stageReport(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const report: StageReport = { passed: 0, failed: 0, skipped: 0, failures: '', failedFiles: [], seconds: {} };
  const failedFiles = new Set<string>();
  const texts = new FailureTexts();
  const counts = new FileCounts();
  let uncounted = 0;
  for await (const event of source) {
    report.failures += texts.describe(event);
    counts.add(event);
    if (isUncounted(event)) uncounted += 1;
    const failedFile = failedFileOf(event);
    if (failedFile !== undefined) failedFiles.add(relative(process.cwd(), failedFile));
    // Only the summary of all files has no `file`.
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue;
    const { tests, passed, skipped, todo } = event.data.counts;
    Object.assign(report, { passed, failed: tests - passed - skipped - todo, skipped });
  }
  report.failed += uncounted;
  report.failedFiles = [...failedFiles];
  for (const [file, { ms }] of counts.files) report.seconds[file] = ms / 1000;
  yield JSON.stringify(report);
}

/** A process that ended by an error or a signal has no summary: there the runner reports the whole file as a test. */
function failedFileOf(event: TestEvent): string | undefined {
  if (event.type === 'test:summary') return event.data.success ? undefined : event.data.file;
  if (event.type !== 'test:fail') return undefined;
  return isUncounted(event) || isOfProcess(event) ? event.data.file : undefined;
}
