/**
 * `node <flags> precompile-agent.ts FOLDER`, run with the Node that will run the agent. Runs the agent of a guest
 * folder, opens a context in it and runs a cell. Then writes V8's code cache for the agent.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { CodeCachedProgram } from '@cloche/node-support';
import { firstRunRequest } from '../warm-up/first-run-request.ts';
import { AGENT_PROGRAM, PRECOMPILED_AGENT } from './agent-program.ts';

const TIMEOUT_MS = 30_000;

const [folder = ''] = process.argv.slice(2);
const workFolder = mkdtempSync(join(tmpdir(), 'cloche-precompile-'));
process.once('exit', () => rmSync(workFolder, { recursive: true, force: true }));
const socketPath = join(workFolder, 'agent.sock');
Object.assign(process.env, {
  CLOCHE_LISTEN_PATH: socketPath,
  CLOCHE_GUEST_PATH: folder,
  CLOCHE_KERNELS_FOLDER: workFolder,
  CLOCHE_WORKSPACE: workFolder,
  CLOCHE_USER_UID: String(process.getuid?.()),
  CLOCHE_USER_GID: String(process.getgid?.()),
});
const program = new CodeCachedProgram(join(folder, AGENT_PROGRAM));
program.load();
await firstRun();
writeFileSync(join(folder, PRECOMPILED_AGENT), program.precompile());
// The agent then ends its kernels and this process.
process.kill(process.pid, 'SIGTERM');

/** Resolves after one complete first run, so that all functions on its path are compiled. */
async function firstRun(): Promise<void> {
  const socket = connect(socketPath).setTimeout(TIMEOUT_MS, () =>
    socket.destroy(new Error('the agent does not answer')),
  );
  const run = {
    language: 'javascript',
    cwd: workFolder,
    code: 'console.log(1); 1 + 1',
    timeoutMs: TIMEOUT_MS,
  } as const;
  socket.write(firstRunRequest({ id: 'first', ...run }));
  for await (const line of createInterface({ input: socket })) {
    if (line.includes('"error":')) throw new Error(`the agent cannot run: ${line}`);
    if (line.includes('"type":"done"')) return;
  }
  throw new Error('the agent ended before its first run');
}
