/**
 * Writes one line of JSON at the end: the numbers of passed, failed and skipped tests, and the text of the failures.
 */
import type { TestEvent } from 'node:test/reporters';
import { FailureTexts, isUncounted } from './failure-texts.ts';

export interface StageReport {
  passed: number;
  failed: number;
  skipped: number;
  failures: string;
}

export default async function* stageReport(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const report: StageReport = { passed: 0, failed: 0, skipped: 0, failures: '' };
  const texts = new FailureTexts();
  let uncounted = 0;
  for await (const event of source) {
    report.failures += texts.describe(event);
    if (isUncounted(event)) uncounted += 1;
    // Only the summary of all files has no `file`.
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue;
    const { tests, passed, skipped, todo } = event.data.counts;
    Object.assign(report, { passed, failed: tests - passed - skipped - todo, skipped });
  }
  report.failed += uncounted;
  yield JSON.stringify(report);
}
