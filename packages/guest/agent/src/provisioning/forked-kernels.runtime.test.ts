import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { ScriptedKernel } from '../../testing/arriving-kernel.ts';
import { descriptorsOf } from '../../testing/process-readings.ts';
import { StartedAgent } from '../../testing/started-agent.ts';
import { supervisorsOf } from '../../testing/started-commands.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

const packages = findPythonPackages();

/**
 * Returns the kernel's first message that is not about a warm-up. A warm-up takes a moment here, and no other message
 * may arrive meanwhile.
 */
async function afterWarmUps(kernel: ScriptedKernel) {
  let isWarmingUp = false;
  for (;;) {
    const message = await kernel.next();
    assert.ok(!isWarmingUp, `asked for ${message.runId} during a warm-up`);
    if (!message.warmUp) return message;
    isWarmingUp = true;
    setTimeout(() => {
      isWarmingUp = false;
      kernel.send({ type: 'done', runId: message.runId, executionCount: 1 });
    }, 10);
  }
}

/** Returns the next message that assigns a place. Answers warm-ups, which happen if the message takes long. */
async function nextPlace(kernel: ScriptedKernel) {
  for (;;) {
    const message = await kernel.next();
    if (!message.warmUp) return message;
    kernel.send({ type: 'done', runId: message.runId, executionCount: 1 });
  }
}

describe('a context that is given a forked kernel', { skip: packages === undefined && 'no template is built' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-arrivals-'));
  let agent: StartedAgent;
  before(async () => {
    agent = await StartedAgent.start(packages, { CLOCHE_KERNELS_FOLDER: folder });
  });
  after(async () => {
    await agent[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const open = (contextId: string, kernelWaitMs: number, cwd = agent.workspace) =>
    agent.call('PUT', `/contexts/${contextId}`, {
      language: 'python',
      cwd,
      timeoutMs: 30_000,
      kernelWaitMs,
    });

  test('a context that is given a forked kernel has one that is started in its place, if it dies before it is ready', async () => {
    using kernel = await ScriptedKernel.arriveAt(folder);
    kernel.socket.on('data', () => kernel.socket.destroy());
    assert.equal((await open('given-a-dying-one', 20_000)).status, 200);
    assert.equal((await agent.run('given-a-dying-one', '1 + 1')).outputs[0]?.value, '2');
  });

  test('a context that is given a forked kernel finds one that came before with its place taken, which is the one of the context from then on', async () => {
    using kernel = await ScriptedKernel.arriveAt(folder);
    try {
      const first = await kernel.next();
      assert.deepEqual([first.type, first.cwd, first.env.CHANGED], ['assign', agent.workspace, undefined]);
      kernel.send({ type: 'ready', protocolVersion: 1 });
      await agent.call('PUT', '/environment', { env: { CHANGED: 'yes' } });
      const second = await nextPlace(kernel);
      assert.deepEqual([second.type, second.cwd, second.env.CHANGED], ['assign', agent.workspace, 'yes']);

      mkdirSync(join(agent.workspace, 'below'));
      const opening = open('given-a-waiting-one', 0, join(agent.workspace, 'below'));
      const third = await kernel.next();
      assert.deepEqual([third.type, third.cwd, third.env.CHANGED], ['assign', `${agent.workspace}/below`, 'yes']);
      kernel.send({ type: 'ready', protocolVersion: 1 });
      assert.equal((await opening).status, 200);
    } finally {
      await agent.call('DELETE', '/contexts/given-a-waiting-one');
    }
  });

  test('a context that is given a forked kernel finds its first run warmed up from end to end, and the kernel as it was', async () => {
    using kernel = await ScriptedKernel.arriveAt(folder);
    const unpacked = new Set<string>();
    const watcher = watch('/var/tmp', (_event, name) => {
      if (name?.startsWith('.cloche-')) unpacked.add(name);
    });
    try {
      utimesSync(agent.workspace, 0, 0);
      assert.equal((await kernel.next()).type, 'assign');
      kernel.send({ type: 'ready', protocolVersion: 1 });
      const warmUp = await kernel.next();
      assert.deepEqual([warmUp.type, warmUp.warmUp], ['execute', true]);
      assert.deepEqual(readdirSync(folder).sort(), ['kernels.sock', 'warm-up.sock']);
      kernel.send({ type: 'done', runId: warmUp.runId, executionCount: 1 });
      await eventually(() => !readdirSync(folder).includes('warm-up.sock'), { because: 'the warm-up ends' });
      assert.doesNotMatch(JSON.stringify((await agent.call('GET', '/contexts')).body), /warm-up/);
      assert.deepEqual(readdirSync(folder), ['kernels.sock']);
      // An archive was unpacked ahead, and nothing of it is left. The workspace was never changed, where it could be seen.
      await eventually(() => unpacked.size > 0, { because: 'an archive is unpacked ahead' });
      const isGone = (name: string) => !existsSync(join('/var/tmp', name));
      await eventually(() => [...unpacked].every(isGone), { because: 'its folder is removed' });
      assert.equal(statSync(agent.workspace).mtimeMs, 0);
      // A first command was run ahead too.
      await eventually(() => supervisorsOf(agent).length === 1, { because: 'the supervisor of that command ends' });
      assert.equal((await agent.call('GET', '/commands/warm-up')).status, 404);
      assert.deepEqual(descriptorsOf(agent.process.pid, join(folder, 'warm-up/')), []);

      assert.equal((await open('given-a-warm-one', 0)).status, 200);
      const running = agent.run('given-a-warm-one', '1 + 1');
      const first = await kernel.next();
      assert.deepEqual([first.type, first.code, first.warmUp], ['execute', '1 + 1', undefined]);
      kernel.send({ type: 'done', runId: first.runId, executionCount: 1 });
      assert.deepEqual((await running).done.executionCount, 1);
    } finally {
      watcher.close();
      await agent.call('DELETE', '/contexts/given-a-warm-one');
    }
  });

  test('a context that is given a forked kernel is not warmed up once a context has it, at whatever moment that is', async () => {
    for (let round = 0; round < 40; round++) {
      using kernel = await ScriptedKernel.arriveAt(folder);
      const id = `taken-${round}`;
      try {
        assert.equal((await kernel.next()).type, 'assign');
        kernel.send({ type: 'ready', protocolVersion: 1 });
        const asked = afterWarmUps(kernel);
        // About the time at which a warm-up begins.
        await delay(48 + (round % 20) / 3);
        assert.equal((await open(id, 0)).status, 200);
        const running = agent.run(id, '1 + 1');
        const message = await asked;
        assert.equal(message.code, '1 + 1');
        await delay(10);
        kernel.send({ type: 'done', runId: message.runId, executionCount: 7 });
        assert.equal((await running).done.executionCount, 7);
      } finally {
        await agent.call('DELETE', `/contexts/${id}`);
      }
    }
  });

  test('a context that is given a forked kernel runs its first cell in a started kernel if the forked one no longer fits by then', async () => {
    using kernel = await ScriptedKernel.arriveAt(folder);
    assert.equal((await kernel.next()).type, 'assign');
    kernel.send({ type: 'ready', protocolVersion: 1 });
    assert.equal((await open('given-an-unfit-one', 20_000)).status, 200);
    const running = agent.run('given-an-unfit-one', '1 + 1');
    const message = await afterWarmUps(kernel);
    assert.deepEqual([message.type, message.code], ['execute', '1 + 1']);
    kernel.send({ type: 'unfit', reason: 'libraries were installed' });
    const { outputs, done } = await running;
    assert.deepEqual([outputs[0]?.value, done.executionCount, done.stateLost], ['2', 1, undefined]);
  });

  test('a context that is given a forked kernel has one that is started as well, if it is said that none comes', async () => {
    const opening = open('given-none', 20_000);
    let isOpen = false;
    const opened = () => {
      isOpen = true;
    };
    opening.then(opened, opened);
    while (!isOpen) assert.equal((await agent.call('DELETE', '/expected-kernel')).status, 204);
    assert.equal((await opening).status, 200);
    assert.equal((await agent.run('given-none', '1 + 1')).outputs[0]?.value, '2');
  });
});
