/**
 * Loaded before each test file. If the file's process is still running a while after its last test, or after an error
 * that no test catches, ends the process and prints what kept it running. Node's runner would wait for it, and with it
 * for the whole stage, without a limit.
 */
import { after } from 'node:test';
import { inspect } from 'node:util';
import { withoutTrackedPromises } from './untracked-promises.ts';

const LONGEST_MS = 60_000;

// The runner itself loads this module too, and has no tests.
if (process.env.NODE_TEST_CONTEXT?.startsWith('child')) {
  const endLater = (when: string) => {
    const end = () => {
      process.stderr.write(`Still open ${when}: ${process.getActiveResourcesInfo().join(', ')}\n`);
      process.exit(1);
    };
    // It keeps no process alive that has nothing else to wait for.
    setTimeout(end, Number(process.env.CLOCHE_TEST_END_AFTER_MS ?? LONGEST_MS)).unref();
  };
  withoutTrackedPromises(() => after(() => endLater('after all tests')));
  for (const event of ['uncaughtException', 'unhandledRejection'] as const)
    process.on(event, (error: unknown) => {
      process.stderr.write(`No test caught ${inspect(error)}\n`);
      endLater('after an error that no test caught');
    });
}
