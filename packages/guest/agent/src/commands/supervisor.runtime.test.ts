import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { StartedAgent } from '../../testing/started-agent.ts';
import { isGone, StartedCommands, supervisorsOf } from '../../testing/started-commands.ts';
import { findStart } from '../processes/process-tree.ts';

let commands: StartedCommands;
before(async () => {
  commands = await StartedCommands.start();
});
after(() => commands[Symbol.asyncDispose]());

describe('the supervisor of a command', () => {
  /** Resolves with the pid of the spare, once the supervisors of the `ended` commands are gone. */
  async function waiting(...ended: number[]): Promise<number> {
    const spares = () => {
      const pids = supervisorsOf(commands.agent);
      return pids.length === 1 ? pids.filter((pid) => !ended.includes(pid)) : [];
    };
    await eventually(() => spares().length === 1, { because: 'exactly one supervisor is left, the spare' });
    return spares()[0] ?? assert.fail('it ended');
  }
  /** Runs a command and returns the pid of its supervisor. */
  const ownSupervisor = async () => Number((await commands.run('echo $PPID')).stdout);

  it('the supervisor of a command has waited for it since the command before', async () => {
    const pid = await waiting(await ownSupervisor());
    assert.equal(await ownSupervisor(), pid);
    const next = await waiting(pid);
    assert.equal(await ownSupervisor(), next);
  });

  it('the supervisor of a command waits for the first one of an agent without requests', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-kernels-'));
    await using agent = await StartedAgent.start('', { CLOCHE_KERNELS_FOLDER: folder });
    await eventually(() => supervisorsOf(agent).length === 1, { because: 'the first supervisor waits' });
    await eventually(() => readdirSync(folder).length === 1, { because: 'the warm-up command leaves nothing behind' });
    assert.deepEqual(readdirSync(folder), ['kernels.sock']);
    assert.equal((await agent.call('GET', '/commands/warm-up')).status, 404);
    rmSync(folder, { recursive: true });
  });

  it('the supervisor of a command is another one when that was killed', async () => {
    const pid = await waiting(await ownSupervisor());
    process.kill(pid, 'SIGKILL');
    // Until the process has ended, which can take a while on a busy machine, it is used like any other.
    await eventually(() => findStart(pid) === undefined, { because: 'the spare ends' });
    const own = await ownSupervisor();
    assert.ok(own > 0 && own !== pid, `${own}`);
    assert.notEqual(await waiting(own), pid);
  });

  it('the supervisor of a command is another one after a command that could not be started', async () => {
    const pid = await waiting(await ownSupervisor());
    assert.equal((await commands.run(['/no-such-program'])).command.status, 'failed');
    const next = await waiting(pid);
    assert.equal(await ownSupervisor(), next);
  });

  it('ends with the agent, also while it waits', async () => {
    const others = await StartedCommands.start();
    await others.run('true');
    await eventually(() => supervisorsOf(others.agent).length === 1, { because: 'the next supervisor waits' });
    const [pid = 0] = supervisorsOf(others.agent);
    await others[Symbol.asyncDispose]();
    assert.ok(await isGone(pid));
  });
});

describe('the end of a command', () => {
  it('the end of a command is reported for each of many that end at once, also if they did not read their input', async () => {
    const stdin = 'x'.repeat(3_000_000);
    const results = await Promise.all([
      ...Array.from({ length: 20 }, () => commands.run('exec <&-; exit 5', { stdin })),
      ...Array.from({ length: 20 }, () => commands.run('echo said; exit 5')),
    ]);
    const ends = results.map(({ command: { exitCode, failureReason } }) => failureReason ?? exitCode);
    assert.deepEqual([...new Set(ends)], [5]);
    assert.equal(results.filter(({ stdout }) => stdout === 'said\n').length, 20);
  });

  it('comes with what it printed as often as that fits, and otherwise with how much that was', async () => {
    const capture = { stdoutBytes: 60 << 20, stderrBytes: 1 };
    const printed = 35_000_000;
    const ids = [await commands.start(`yes | head -c ${printed}`, { capture })];
    assert.equal((await commands.ended(ids[0] ?? '')).exitCode, 0);
    ids.push(await commands.start(`yes | head -c ${printed}`, { capture }));
    await commands.ended(ids[1] ?? '');
    const [first, second] = [await commands.result(ids[0] ?? ''), await commands.result(ids[1] ?? '')];
    assert.equal(first.stdout, `[cloche: ${printed} bytes of stdout are no longer kept here; read the log]\n`);
    assert.deepEqual(first.truncated, { stdout: printed });
    assert.equal(second.stdout.length, printed);
    assert.equal(second.truncated, undefined);
    const isReleased = async () => (await commands.result(ids[1] ?? '')).truncated?.stdout === printed;
    await eventually(isReleased, { because: 'a result that was delivered is no longer kept' });
  });
});
