/**
 * Is loaded before each test file. Ends its process when it still lives a while after its last test, and says what keeps
 * it: Node's runner would wait for it without a limit, and with it the whole stage.
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
