import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { StartedAgent } from '../../testing/started-agent.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

const LIMIT_BYTES = 400 << 20;
const V1 = '/sys/fs/cgroup/memory';
const V2 = '/sys/fs/cgroup';

const packages = findPythonPackages();
const skip = packages === undefined ? 'no python-node template is built' : !hasMemoryController() && 'no memory cgroup';

describe('a sandbox that runs out of memory', { skip }, () => {
  test('a sandbox that runs out of memory loses the run that took it, and no other context', async () => {
    using group = new MemoryGroup(`cloche-agent-test-${process.pid}`);
    await using agent = await StartedAgent.start(packages);
    group.add(agent.process.pid);
    const [greedy, other] = [await agent.open(), await agent.open()];
    await agent.run(other, 'kept = bytearray(20 << 20)');
    const bystander = await agent.start(other, 'import time\nprint("begun")\ntime.sleep(1)\nlen(kept)');

    const { done } = await agent.run(greedy, 'hoard = []\nwhile True: hoard.append(bytearray(1 << 20))');

    assert.equal(done.error?.name, 'OutOfMemoryError');
    assert.equal((await bystander.result()).outputs[0]?.value, String(20 << 20));
    assert.equal((await agent.run(other, '1')).done.stateLost, undefined);
    assert.equal((await agent.run(greedy, '1')).done.stateLost, true);
    assert.equal((await agent.run(greedy, '1')).done.error, undefined);
    const killed = await agent.run(greedy, 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)');
    assert.equal(killed.done.error?.name, 'KernelDiedError', 'a kill that memory did not cause is told apart');
  });
});

/** A memory control group for this test. Disposing of it removes it. */
class MemoryGroup implements Disposable {
  readonly #folder: string;

  constructor(name: string) {
    this.#folder = `${existsSync(`${V1}/memory.limit_in_bytes`) ? V1 : V2}/${name}`;
    mkdirSync(this.#folder);
    const limit = existsSync(`${this.#folder}/memory.max`) ? 'memory.max' : 'memory.limit_in_bytes';
    writeFileSync(`${this.#folder}/${limit}`, String(LIMIT_BYTES));
  }

  add(pid: number | undefined): void {
    writeFileSync(`${this.#folder}/cgroup.procs`, String(pid));
  }

  [Symbol.dispose](): void {
    // The agent has been disposed of before, so the group has no processes.
    rmdirSync(this.#folder);
  }
}

function hasMemoryController(): boolean {
  if (process.getuid?.() !== 0) return false;
  if (existsSync(`${V1}/memory.limit_in_bytes`)) return true;
  return (
    existsSync(`${V2}/cgroup.subtree_control`) &&
    readFileSync(`${V2}/cgroup.subtree_control`, 'utf8').includes('memory')
  );
}
