/** Real agents that announce versions of the protocol around the server's own. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { AGENT_PROTOCOL_VERSION } from '@cloche/protocol';
import { AgentError } from '@cloche/runtime';
import { dialer } from '@cloche/runtime/agent-endpoint';
import { AgentHttpClient } from '@cloche/runtime/agent-http-client';
import { eventually } from '@cloche/testkit/eventually';
import { needsRoot } from '@cloche/testkit/needs-root';
import type { UseOfAgent } from '../../testing/use-live-agent.ts';

/** How the sandbox is read, listed and deleted. */
const STATUSES = ['ready', 'ready', 'destroyed'];

/** Starts an agent without kernels that announces the version. */
function openAgent(version: number) {
  const folder = mkdtempSync(join(tmpdir(), 'window-'));
  // The user of the sandbox reads the folder.
  chmodSync(folder, 0o755);
  const versions = join(folder, 'versions.json');
  writeFileSync(versions, JSON.stringify({ AGENT_PROTOCOL_VERSION: version }));
  const socketPath = join(folder, 'agent.sock');
  const preload = ['--import', import.meta.resolve('@cloche/testkit/announced-protocols')];
  const program = new URL('../../../../guest/agent/src/main.ts', import.meta.url).pathname;
  const child: ChildProcess = spawn(process.execPath, [...preload, program], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      ANNOUNCED_PROTOCOLS: versions,
      CLOCHE_LISTEN_PATH: socketPath,
      CLOCHE_GUEST_PATH: folder,
      CLOCHE_COMMAND_LOGS: join(folder, 'logs'),
    },
  });
  const client = new AgentHttpClient(dialer({ unix: socketPath }));
  return {
    client,
    socketPath,
    async [Symbol.asyncDispose]() {
      await client.close();
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await exit;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the kind of error that a health check ends with, once the agent listens; undefined if there is none. */
async function faultOf(client: AgentHttpClient): Promise<AgentError['kind'] | undefined> {
  let kind: AgentError['kind'] | undefined = 'gone';
  const isThere = async () => {
    kind = await client.checkHealth(new AbortController().signal).then(
      () => undefined,
      (error: unknown) => (error instanceof AgentError ? error.kind : Promise.reject(error)),
    );
    return kind !== 'gone';
  };
  await eventually(isThere, { because: 'the agent listens' });
  return kind;
}

/** Lets a server that was started beside a live sandbox use the agent of this. */
async function useLive(socketPath: string, ...versions: 'equal'[]): Promise<UseOfAgent> {
  const program = new URL('../../testing/use-live-agent.ts', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, [program, socketPath, ...versions]);
  return JSON.parse(stdout);
}

describe('an agent that announces', () => {
  const rows = [
    ['the version of the server', 0, undefined],
    ['the version before', -1, undefined],
    ['the next version', 1, 'incompatible'],
    ['an older version', -2, 'incompatible'],
  ] as const;
  for (const [name, difference, kind] of rows) {
    it(`${name} is ${kind ?? 'accepted'}`, async () => {
      await using agent = openAgent(AGENT_PROTOCOL_VERSION + difference);
      assert.equal(await faultOf(agent.client), kind);
    });
  }
});

// Its agent takes the user of the sandbox.
describe('a live sandbox whose agent has the version before', { skip: needsRoot }, () => {
  it('a live sandbox whose agent has the version before is used by a server of the next version, and refused by one that accepts only equal versions: the control', async () => {
    await using agent = openAgent(AGENT_PROTOCOL_VERSION - 1);
    assert.equal(await faultOf(agent.client), undefined);
    const { files, refused, statuses } = await useLive(agent.socketPath);
    assert.deepEqual([files?.includes('versions.json'), refused, statuses], [true, undefined, STATUSES]);
    // It is read, listed and deleted by that one too.
    const byEqual = await useLive(agent.socketPath, 'equal');
    assert.deepEqual(byEqual, { refused: 'sandbox_incompatible', statuses: STATUSES });
  });

  it('a live sandbox whose agent has the version before is used by a server that accepts only equal versions when they are equal', async () => {
    await using agent = openAgent(AGENT_PROTOCOL_VERSION);
    assert.equal(await faultOf(agent.client), undefined);
    assert.equal((await useLive(agent.socketPath, 'equal')).refused, undefined);
  });
});
