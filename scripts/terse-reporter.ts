/** Prints a line for each file and each skip, and failures in full. */
import type { TestEvent } from 'node:test/reporters';
import { FailureTexts, place } from './failure-texts.ts';
import { FileCounts } from './file-counts.ts';

export default async function* terse(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts = new FileCounts();
  const texts = new FailureTexts();
  for await (const event of source) {
    if (event.data && 'todo' in event.data && event.data.todo && event.type === 'test:fail') {
      yield `- to do: ${place(event.data)}: ${event.data.name} (${event.data.todo})\n`;
      continue;
    }
    yield texts.describe(event);
    counts.add(event);
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.file && event.data.skip)
      yield `- skipped: ${event.data.name} (${event.data.skip})\n`;
  }
  for (const [file, { passed, failed, ms }] of counts.files)
    yield `${failed > 0 ? '✖' : '✔'} ${file}  ${passed} passed, ${failed} failed, ${(ms / 1000).toFixed(1)} s\n`;
}
