import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { commandLine } from '../../testing/process-readings.ts';
import { StartedAgent } from '../../testing/started-agent.ts';
import { findStart } from '../processes/process-tree.ts';

describe('a kernel that was started ahead', () => {
  let agent: StartedAgent;
  before(async () => {
    agent = await StartedAgent.start();
  });
  after(() => agent[Symbol.asyncDispose]());

  /** Returns the pids of the agent's kernels. The agent also has other, short-lived children. */
  const kernels = (language = '') => {
    const children = readFileSync(`/proc/${agent.process.pid}/task/${agent.process.pid}/children`, 'utf8');
    return children
      .split(' ')
      .filter((pid) => new RegExp(`main\\.cjs\0${language}`).test(commandLine(pid)))
      .map(Number);
  };

  async function contexts(): Promise<string[]> {
    const { body } = await agent.call('GET', '/contexts');
    return (body as { contexts: { contextId: string }[] }).contexts.map(({ contextId }) => contextId);
  }

  async function pidOf(context: string): Promise<number> {
    return Number((await agent.run(context, 'process.pid')).outputs[0]?.value);
  }

  /** Resolves with the pid of the only kernel that belongs to no context. */
  async function spare(used: readonly number[]): Promise<number> {
    const unused = () => kernels().filter((kernel) => !used.includes(kernel));
    await eventually(() => unused().length === 1, { because: 'exactly one kernel belongs to no context' });
    return unused()[0] ?? assert.fail('it ended');
  }

  test('a kernel that was started ahead becomes the next context of its language, and another is started', async () => {
    const first = await pidOf(await agent.open('javascript'));
    const ahead = await spare([first]);
    const second = await pidOf(await agent.open('javascript'));
    assert.equal(second, ahead);
    assert.notEqual(await spare([first, second]), ahead);
  });

  test('a kernel that was started ahead is no context', async () => {
    const id = await agent.open('javascript');
    await spare(await Promise.all((await contexts()).map(pidOf)));
    assert.ok((await contexts()).includes(id));
    assert.equal((await contexts()).length, kernels().length - 1);
  });

  test('a kernel that was started ahead is not given to a context that works elsewhere', async () => {
    const used = kernels();
    mkdirSync(join(agent.workspace, 'elsewhere'));
    const request = { language: 'javascript', cwd: join(agent.workspace, 'elsewhere'), timeoutMs: 30_000 };
    assert.equal((await agent.call('PUT', '/contexts/elsewhere', request)).status, 200);
    assert.ok(!used.includes(await pidOf('elsewhere')));
    assert.match((await agent.run('elsewhere', 'process.cwd()')).outputs[0]?.value ?? '', /elsewhere/);
  });

  test('a kernel that was started ahead is replaced when the environment changes', async () => {
    const env = { CHANGED: 'yes' };
    const used = await Promise.all((await contexts()).map(pidOf));
    const before = await spare(used);
    assert.equal((await agent.call('PUT', '/environment', { env })).status, 204);
    await eventually(() => !kernels().includes(before), { because: 'the spare kernel ends' });
    const ahead = await spare(used);
    const context = await agent.open('javascript');
    assert.equal(await pidOf(context), ahead);
    assert.equal((await agent.run(context, 'process.env.CHANGED')).outputs[0]?.value, "'yes'");
  });

  test('a kernel that was started ahead that died in the meantime is passed over', async () => {
    const context = await agent.open('typescript');
    const used = kernels('javascript');
    const ahead = await spare([...used, await pidOf(context)]);
    process.kill(ahead, 'SIGKILL');
    // Its arguments disappear some time before it has ended.
    await eventually(() => findStart(ahead) === undefined, { because: 'the spare kernel ends' });
    assert.notEqual(await pidOf(await agent.open('typescript')), ahead);
  });
});

test('when an agent ends, its spare kernel has ended', async () => {
  const agent = await StartedAgent.start();
  const group = () =>
    readFileSync(`/proc/${agent.process.pid}/task/${agent.process.pid}/children`, 'utf8').trim().split(' ');
  await agent.open('javascript');
  const kernels = () => group().filter((pid) => commandLine(pid).includes('main.cjs'));
  await eventually(() => kernels().length === 2, { because: 'the spare kernel has started' });
  const pids = group();
  await agent[Symbol.asyncDispose]();
  for (const pid of pids) assert.ok(!commandLine(pid).includes('main.cjs'));
});
