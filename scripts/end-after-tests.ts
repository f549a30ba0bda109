/**
 * Loaded before each test file. If the file's process is still running a while after its last test, ends the process
 * and prints what kept it running. Node's runner would wait for it, and with it for the whole stage, without a limit.
 */
import { after } from 'node:test';

const LONGEST_MS = 60_000;

// The runner itself loads this module too, and has no tests.
if (process.env.NODE_TEST_CONTEXT?.startsWith('child')) {
  after(() => {
    const end = () => {
      process.stderr.write(`Still open after all tests: ${process.getActiveResourcesInfo().join(', ')}\n`);
      process.exit(1);
    };
    // It keeps no process alive that has nothing else to wait for.
    setTimeout(end, Number(process.env.CLOCHE_TEST_END_AFTER_MS ?? LONGEST_MS)).unref();
  });
}
