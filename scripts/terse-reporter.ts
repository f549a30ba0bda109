/** Prints a line for each file and each skip, and failures in full. */
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { FailureTexts, isOfHook, place } from './failure-texts.ts';

export default async function* terse(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files = new Map<string, { passed: number; failed: number; ms: number; nesting: number }>();
  const texts = new FailureTexts();
  for await (const event of source) {
    if (event.data && 'todo' in event.data && event.data.todo && event.type === 'test:fail') {
      yield `- to do: ${place(event.data)}: ${event.data.name} (${event.data.todo})\n`;
      continue;
    }
    yield texts.describe(event);
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.file) {
      const file = relative(process.cwd(), event.data.file);
      const counts = files.get(file) ?? { passed: 0, failed: 0, ms: 0, nesting: event.data.nesting };
      // The outermost tests of a file, which are inside a suite if the file is in a group. They come after inner ones.
      if (event.data.nesting < counts.nesting) Object.assign(counts, { ms: 0, nesting: event.data.nesting });
      if (event.data.nesting === counts.nesting) counts.ms += event.data.details.duration_ms;
      // A suite fails by itself only where a hook of it does.
      if (event.data.details.type !== 'suite' || isOfHook(event))
        counts[event.type === 'test:pass' ? 'passed' : 'failed'] += 1;
      files.set(file, counts);
      if (event.data.skip) yield `- skipped: ${event.data.name} (${event.data.skip})\n`;
    }
  }
  for (const [file, { passed, failed, ms }] of files) {
    // A group of files has no tests of its own.
    if (passed + failed === 0) continue;
    yield `${failed > 0 ? '✖' : '✔'} ${file}  ${passed} passed, ${failed} failed, ${(ms / 1000).toFixed(1)} s\n`;
  }
}
