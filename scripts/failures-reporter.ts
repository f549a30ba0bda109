/** What failed and nothing else, so that the end of a long log tells it once more. */
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

export default async function* failures(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) yield describeFailure(event);
}

/** The test that failed, with its error; nothing for any other event, nor for a suite that only holds what failed. */
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
