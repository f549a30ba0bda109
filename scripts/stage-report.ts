/**
 * Writes one line of JSON at the end: the numbers of passed, failed and skipped tests, and the text of the failures.
 */
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

export interface StageReport {
  passed: number;
  failed: number;
  skipped: number;
  failures: string;
}

export default async function* stageReport(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const report: StageReport = { passed: 0, failed: 0, skipped: 0, failures: '' };
  for await (const event of source) {
    report.failures += describeFailure(event);
    // Only the summary of all files has no `file`.
    if (event.type !== 'test:summary' || event.data.file !== undefined) continue;
    const { tests, passed, skipped, todo } = event.data.counts;
    Object.assign(report, { passed, failed: tests - passed - skipped - todo, skipped });
  }
  yield JSON.stringify(report);
}

/**
 * Describes a failed test with its error. Empty for any other event, and for a suite that failed only because of its
 * tests.
 */
export function describeFailure(event: TestEvent): string {
  if (event.type !== 'test:fail' || event.data.todo) return '';
  const error: Error & { failureType?: string } = event.data.details.error;
  if (error.failureType === 'subtestsFailed' || error.failureType === 'cancelledByParent') return '';
  return `✖ ${place(event.data)}: ${event.data.name}\n${indent(inspect(error.cause ?? error))}\n`;
}

export function place(data: { file?: string; line?: number }): string {
  return data.file ? `${relative(process.cwd(), data.file)}:${data.line ?? 0}` : 'test';
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '    ');
}
