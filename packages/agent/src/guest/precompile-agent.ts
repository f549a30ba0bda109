/**
 * `node <flags> precompile-agent.ts FOLDER`, by the Node that will run the agent: writes what V8 makes of the one in a guest
 * folder, by having it open a context there and run a cell.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PrecompiledProgram } from '@cloche/node-support';
import { firstRunRequest } from '../warm-up/first-run-request.ts';
import { AGENT_PROGRAM, PRECOMPILED_AGENT } from './agent-program.ts';

const TIMEOUT_MS = 30_000;

const [folder = ''] = process.argv.slice(2);
const places = mkdtempSync(join(tmpdir(), 'cloche-precompile-'));
process.once('exit', () => rmSync(places, { recursive: true, force: true }));
const socketPath = join(places, 'agent.sock');
Object.assign(process.env, {
  CLOCHE_LISTEN_PATH: socketPath,
  CLOCHE_GUEST_PATH: folder,
  CLOCHE_KERNELS_FOLDER: places,
  CLOCHE_WORKSPACE: places,
  CLOCHE_USER_UID: String(process.getuid?.()),
  CLOCHE_USER_GID: String(process.getgid?.()),
});
const program = new PrecompiledProgram(join(folder, AGENT_PROGRAM));
program.load();
await firstRun();
writeFileSync(join(folder, PRECOMPILED_AGENT), program.precompile());
// It ends its kernels, and with them the process.
process.kill(process.pid, 'SIGTERM');

/** Resolves when the agent has gone all the way of one, so that all functions that it takes are compiled. */
async function firstRun(): Promise<void> {
  const socket = connect(socketPath).setTimeout(TIMEOUT_MS, () =>
    socket.destroy(new Error('the agent does not answer')),
  );
  const run = { language: 'javascript', cwd: places, code: 'console.log(1); 1 + 1', timeoutMs: TIMEOUT_MS } as const;
  socket.write(firstRunRequest({ id: 'first', ...run }));
  for await (const line of createInterface({ input: socket })) {
    if (line.includes('"error":')) throw new Error(`the agent cannot run: ${line}`);
    if (line.includes('"type":"done"')) return;
  }
  throw new Error('the agent ended before its first run');
}
