/** Root of the sandbox can do anything to the workspace, in which contexts, commands, terminals and files begin. */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';
import type { StartedAgent } from '../../testing/started-agent.ts';

const USER = 1000;

/** Ways to take the workspace away. `elsewhere` is a folder of the user. */
const REPLACED: Record<string, (workspace: string, elsewhere: string) => void> = {
  removed: (workspace) => rmSync(workspace, { recursive: true }),
  'moved aside': (workspace, elsewhere) => renameSync(workspace, `${elsewhere}/moved`),
  'removed and made again': (workspace) => {
    rmSync(workspace, { recursive: true });
    mkdirSync(workspace);
    chownSync(workspace, USER, USER);
  },
  'replaced by a link to a directory': (workspace, elsewhere) => {
    rmSync(workspace, { recursive: true });
    symlinkSync(elsewhere, workspace);
  },
};

const UNUSABLE: Record<string, [(workspace: string) => void, RegExp]> = {
  'a file': [(workspace) => writeFileSync(workspace, ''), /is not a directory/],
  'a link that leads nowhere': [(workspace) => symlinkSync('/nowhere', workspace), /is a link that leads nowhere/],
  'a link to itself': [(workspace) => symlinkSync(workspace, workspace), /cannot be used \(ELOOP\)/],
  'a directory of root': [(workspace) => mkdirSync(workspace, { mode: 0o700 }), /may not be entered by the user/],
};

const REQUESTS: Record<string, (agent: StartedAgent) => Promise<unknown>> = {
  'a Python context': (agent) => runIn(agent, 'python', 'import os; print(os.getcwd())'),
  'a JavaScript context': (agent) => runIn(agent, 'javascript', 'console.log(process.cwd())'),
  'a command': async (agent) => {
    const command = await startCommand(agent, 'user');
    assert.equal(command.status, 200, JSON.stringify(command.body));
  },
  'a file': async (agent) => {
    const { status, body } = await agent.call('PUT', '/files/content?path=note.txt', 'text');
    assert.equal(status, 200, JSON.stringify(body));
  },
};

async function runIn(agent: StartedAgent, language: string, code: string): Promise<void> {
  const { stdout } = await agent.run(await agent.open(language), code);
  assert.notEqual(stdout.trim(), '');
  assert.equal(statSync(stdout.trim()).ino, statSync(agent.workspace).ino, stdout);
}

let commands = 0;
function startCommand(agent: StartedAgent, user: string) {
  const start = { argv: ['/bin/true'], cwd: agent.workspace, env: {}, user, logBytes: 1024 };
  return agent.call('PUT', `/commands/workspace-${commands++}`, start);
}

function restore({ workspace }: StartedAgent): void {
  rmSync(workspace, { recursive: true, force: true });
  mkdirSync(workspace);
  chownSync(workspace, USER, USER);
}

describePython('a workspace', (python) => {
  for (const [what, replace] of Object.entries(REPLACED)) {
    for (const [request, send] of Object.entries(REQUESTS)) {
      test(`${what} by root serves ${request}`, async () => {
        const { agent } = python;
        const elsewhere = `${agent.folder}/elsewhere`;
        rmSync(elsewhere, { recursive: true, force: true });
        mkdirSync(elsewhere);
        chownSync(elsewhere, USER, USER);
        restore(agent);
        // Kernels that wait for the next context are in the folder that is taken away.
        await agent.open('javascript');
        replace(agent.workspace, elsewhere);
        await send(agent);
        assert.equal(statSync(agent.workspace).uid, USER);
      });
    }
  }

  for (const [what, [put, why]] of Object.entries(UNUSABLE)) {
    test(`replaced by ${what} is named by what needs it, until root repairs it`, async () => {
      const id = what.replaceAll(' ', '-');
      const { agent } = python;
      rmSync(agent.workspace, { recursive: true, force: true });
      put(agent.workspace);
      const open = { language: 'python', cwd: agent.workspace, timeoutMs: 30_000 };
      const refused = [await agent.call('PUT', `/contexts/${id}`, open), await startCommand(agent, 'user')];
      for (const { status, body } of refused) {
        const { error } = body as { error: { code: string; message: string } };
        assert.deepEqual([status, error.code], [409, 'unusable'], JSON.stringify(body));
        assert.match(error.message, why);
      }
      restore(agent);
      await agent.open('python', id);
      assert.equal((await agent.run(id, 'print(1)')).stdout, '1\n');
      await agent.call('DELETE', `/contexts/${id}`);
    });
  }

  test('a context whose folder is lost is named when the kernel is replaced', async () => {
    const { agent } = python;
    restore(agent);
    const cwd = `${agent.workspace}/inner`;
    mkdirSync(cwd);
    chmodSync(cwd, 0o777);
    const opened = await agent.call('PUT', '/contexts/inner', { language: 'python', cwd, timeoutMs: 30_000 });
    assert.equal(opened.status, 200, JSON.stringify(opened.body));
    rmSync(cwd, { recursive: true });
    const { status, body } = await agent.call('POST', '/contexts/inner/restart');
    assert.deepEqual([status, (body as { error: { code: string } }).error.code], [409, 'unusable']);
    assert.match(JSON.stringify(body), /inner, the cwd of the context, is not a directory any more/);
    const { done } = await agent.run('inner', 'print(1)');
    assert.match(done.error?.message ?? '', /inner, the cwd of the context, is not a directory any more/);
    mkdirSync(cwd);
    chmodSync(cwd, 0o777);
    await eventually(async () => (await agent.run('inner', 'print(1)')).stdout === '1\n', {
      because: 'the context works again',
    });
  });
});
