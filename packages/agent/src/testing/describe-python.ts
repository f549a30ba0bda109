import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { StartedAgent } from './started-agent.ts';
import { findPythonPackages } from './test-cache.ts';

/** There from the first test to the last. */
export interface PythonWorld {
  readonly agent: StartedAgent;
  /** An open context. */
  readonly context: string;
}

/** Tests that need an agent with a Python context. Skipped where no template has a Python for it. */
export function describePython(title: string, tests: (python: PythonWorld) => void): void {
  const packages = findPythonPackages();
  const skip = packages === undefined && 'no python-node template is built';
  describe(title, { skip }, () => {
    let world: PythonWorld | undefined;
    before(async () => {
      const agent = await StartedAgent.start(packages);
      world = { agent, context: await agent.open() };
    });
    after(() => world?.agent[Symbol.asyncDispose]());
    const there = () => world ?? assert.fail('there is an agent during tests alone');
    tests({
      get agent() {
        return there().agent;
      },
      get context() {
        return there().context;
      },
    });
  });
}
