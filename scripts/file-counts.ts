import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { isOfHook } from './failure-texts.ts';

/** How many tests of a file passed and failed, and how long they took. */
export interface FileCount {
  passed: number;
  failed: number;
  ms: number;
}

/** Counts the tests of each file, from the events of a test run in their order. */
export class FileCounts {
  readonly #files = new Map<string, FileCount & { nesting: number }>();

  add(event: TestEvent): void {
    if ((event.type !== 'test:pass' && event.type !== 'test:fail') || !event.data.file) return;
    const file = relative(process.cwd(), event.data.file);
    const counts = this.#files.get(file) ?? { passed: 0, failed: 0, ms: 0, nesting: event.data.nesting };
    // The outermost tests of a file, which are inside a suite if the file is in a group. They come after inner ones.
    if (event.data.nesting < counts.nesting) Object.assign(counts, { ms: 0, nesting: event.data.nesting });
    if (event.data.nesting === counts.nesting) counts.ms += event.data.details.duration_ms;
    // A suite fails by itself only where a hook of it does.
    if (event.data.details.type !== 'suite' || isOfHook(event))
      counts[event.type === 'test:pass' ? 'passed' : 'failed'] += 1;
    this.#files.set(file, counts);
  }

  /** Returns the files that have tests, by path. A group of files has none of its own. */
  get files(): ReadonlyMap<string, FileCount> {
    return new Map([...this.#files].filter(([, { passed, failed }]) => passed + failed > 0));
  }
}
