import { relative, resolve } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';

/** Most characters of a file's output that are repeated when the file fails. */
const MAX_LAST_WORDS = 4096;

type FailedTest = Extract<TestEvent, { type: 'test:fail' }>['data'];
type TestError = Error & { failureType?: string; exitCode?: number | null; signal?: string | null };

/** Describes what failed, from the events of a test run in their order. */
export class FailureTexts {
  /** Last standard error of each file, and the runner's remarks about the file. */
  readonly #lastWords = new Map<string, string>();

  /**
   * Describes a failed test with its error. A file that failed although none of its tests did is described by its exit
   * code, its signal and its last words. Empty for any other event, and for a suite that failed only because of its
   * tests.
   */
  describe(event: TestEvent): string {
    if (event.type === 'test:stderr' || event.type === 'test:diagnostic')
      this.#note(event.data.file, event.data.message);
    if (event.type !== 'test:fail' || event.data.todo) return '';
    const error: TestError = event.data.details.error;
    if (error.failureType === 'subtestsFailed' || error.failureType === 'cancelledByParent') return '';
    const text =
      error.exitCode === undefined ? inspectWhole(error.cause ?? error) : this.#describeEnd(event.data, error);
    return `✖ ${place(event.data)}: ${event.data.name}\n${indent(text)}\n`;
  }

  #note(file: string | undefined, words: string): void {
    if (file === undefined) return;
    const key = resolve(file);
    this.#lastWords.set(key, `${this.#lastWords.get(key) ?? ''}${words.trimEnd()}\n`.slice(-MAX_LAST_WORDS));
  }

  #describeEnd({ file = '' }: FailedTest, { exitCode, signal }: TestError): string {
    const end = signal ? `was ended by ${signal}` : `ended with exit code ${exitCode}`;
    const words = this.#lastWords.get(resolve(file));
    return `No test failed, but its process ${end}${words ? `. It said last:\n${words.trimEnd()}` : ' and said nothing.'}`;
  }
}

/** Returns whether a hook failed, as opposed to a test: that of a suite, or one outside of suites. */
export function isOfHook(event: TestEvent): boolean {
  if (event.type !== 'test:fail' || event.data.details.type === 'test') return false;
  return (event.data.details.error as TestError).failureType === 'hookFailed';
}

/**
 * Returns whether the runner does not count the failure: of a hook outside of suites, after which it even ends with 0.
 */
export function isUncounted(event: TestEvent): boolean {
  return isOfHook(event) && event.type === 'test:fail' && event.data.details.type === undefined;
}

/** Returns whether a test file failed as a whole, because its process ended by an error or a signal. */
export function isOfProcess(event: TestEvent): boolean {
  return event.type === 'test:fail' && (event.data.details.error as TestError).exitCode !== undefined;
}

export function place(data: { file?: string; line?: number }): string {
  return data.file ? `${relative(process.cwd(), data.file)}:${data.line ?? 0}` : 'test';
}

/**
 * `inspect` shows neither of the errors of a `SuppressedError`, the way in which a failed disposal hides a failed test.
 */
function inspectWhole(error: unknown): string {
  if (!(error instanceof Error) || error.name !== 'SuppressedError') return inspect(error);
  const { error: last, suppressed } = error as SuppressedError;
  return `${inspectWhole(suppressed)}\nAt the disposal:\n${inspectWhole(last)}`;
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '    ');
}
