import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkTools } from './tool-checks.ts';

/** What a program does that fails, and the reason that an operator is told. */
const FAILURES: readonly (readonly [script: string, reason: string])[] = [
  ['exit 3', 'exit code 3'],
  ['kill -9 $$', 'SIGKILL'],
  ['echo >&2; exit 1', 'exit code 1'],
  ['printf "  \\n\\n" >&2; exit 1', 'exit code 1'],
  ['echo "Operation not permitted (you must be root)" >&2; exit 1', 'Operation not permitted (you must be root)'],
  ['printf "cache initialization failed\\n\\n" >&2; exit 1', 'cache initialization failed'],
  ['printf "no such table\\n^^^^\\n" >&2; exit 1', 'no such table'],
  ['printf "no such table.\\n.\\n" >&2; exit 1', 'no such table.'],
  ['echo "printed to the other stream"; exit 1', 'printed to the other stream'],
];

describe('a tool that does not work', () => {
  for (const [script, reason] of FAILURES) {
    it(`a tool that does not work has the reason ${reason}: ${script}`, async () => {
      const [finding] = await checkTools([{ name: 'tool', command: ['sh', '-c', script] }]);
      assert.match(JSON.stringify(finding), new RegExp(`does not work: ${reason.replaceAll(/[().]/g, '\\$&')}"`));
    });
  }
});
