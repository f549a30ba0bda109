import type { StageReport } from './stage-report.ts';

/** Files of a whole run that may fail at first. More mean that something is broken. */
const MOST_FILES = 5;

/**
 * Runs failed test files once more. A test that is disturbed by other work on the machine then passes. It is not
 * hidden: `texts` has each failure of a file that passed at the second try (docs/design/clients-and-tests.md).
 */
export class SecondTry {
  /** The failures of the first try only. */
  readonly texts: string[] = [];
  #filesLeft = MOST_FILES;

  /** @param runFiles runs test files; `again` means one at a time, after their first failure */
  async run(files: readonly string[], runFiles: RunFiles): Promise<StageReport> {
    const first = await runFiles(files, { again: false });
    const { failedFiles } = first;
    if (first.failed === 0 || failedFiles.length === 0 || failedFiles.length > this.#filesLeft) return first;
    this.#filesLeft -= failedFiles.length;
    console.log(`Once more: ${failedFiles.join(', ')}`);
    const second = await runFiles(failedFiles, { again: true });
    if (second.failed > 0) return { ...first, failures: `${first.failures}At the second try:\n${second.failures}` };
    this.texts.push(first.failures);
    return { ...first, passed: first.passed + first.failed, failed: 0, failures: '', failedFiles: [] };
  }
}

export type RunFiles = (files: readonly string[], options: { readonly again: boolean }) => Promise<StageReport>;
