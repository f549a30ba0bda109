import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { StartedAgent } from './started-agent.ts';
import { findPythonPackages } from './test-cache.ts';

/** Agent and context of a suite. Available while its tests run. */
export interface PythonWorld {
  readonly agent: StartedAgent;
  /** Id of an open context. */
  readonly context: string;
}

/** Declares tests that need an agent with a Python context. Skips them if no template with Python is built. */
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
