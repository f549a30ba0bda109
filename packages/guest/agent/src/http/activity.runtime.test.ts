import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { it } from 'node:test';
import { TERMINAL_PROTOCOL } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { StartedCommands } from '../../testing/started-commands.ts';

it('an agent tells that something runs while a command does and while a client is at a terminal', async () => {
  await using commands = await StartedCommands.start();
  const { agent } = commands;
  const isRunning = async () => ((await agent.call('GET', '/activity')).body as { running: boolean }).running;
  assert.equal(await isRunning(), false);

  const id = await commands.start('sleep 1000');
  assert.equal(await isRunning(), true);
  await commands.kill(id);
  assert.equal(await isRunning(), false);

  const terminal = connect(join(agent.folder, 'agent.sock'));
  const path = '/terminals/pty_1?columns=80&rows=24&user=user&idleMs=60000';
  terminal.write(`GET ${path} HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${TERMINAL_PROTOCOL}\r\n\r\n`);
  const [head] = await once(terminal, 'data');
  assert.match(String(head), /^HTTP\/1\.1 101 /);
  assert.equal(await isRunning(), true);
  terminal.destroy();
  await eventually(async () => !(await isRunning()), { because: 'nobody is at the terminal, whose shell goes on' });
});
