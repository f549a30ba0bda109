import type { KernelProcess } from './kernel-process.ts';
import { parseJson, readStartRun } from './requests.ts';
import { Run, type RunClient } from './run.ts';

const LINE = JSON.stringify({
  contextId: 'rehearsal',
  runId: 'rehearsal',
  code: '1 + 1',
  timeoutMs: 1,
  limits: { stdoutBytes: 1024, stderrBytes: 1024, outputBytes: 1024, outputsBytes: 1024 },
});

const NOBODY: RunClient = { congested: false, write() {}, end() {} };

/**
 * Takes a run through this program and through a kernel that waits for its first. What neither has ever done takes it
 * several times as long: code is compiled, and pages that are shared until they are written to are copied.
 */
export function rehearse(kernel: KernelProcess): void {
  const run = new Run(readStartRun(parseJson(LINE)), NOBODY, performance.now());
  run.begin();
  kernel.rehearse({
    runId: run.id,
    code: run.code,
    message: (message) => {
      if (message.type === 'output') run.output(message);
      else run.finish({ executionCount: message.executionCount });
    },
  });
}
