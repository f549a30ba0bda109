import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { RUNS_UPGRADE } from '@cloche/protocol';
import type { AgentConfig } from './config.ts';
import type { ContextKernel } from './context.ts';
import { ContextRegistry } from './context-registry.ts';
import type { KernelListener } from './kernel-listener.ts';
import type { KernelProcess } from './kernel-process.ts';
import type { KernelSource } from './kernel-supply.ts';
import { serveRuns } from './run-connection.ts';
import { serveUpgrades } from './upgrades.ts';

const REQUEST = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
const CODE = 'print(1)\n1 + 1';
/** It takes milliseconds; a kernel that dies meanwhile never ends it. */
const TIMEOUT_MS = 10_000;
const BYTES = 1024;

/**
 * Takes a first run all the way through this program, and through a kernel that waits for its own: from a connection that
 * is opened for it to a context that is. What neither has ever done takes it several times as long: code is compiled, and
 * pages that are shared until they are written to are copied. Leaves the kernel as it was.
 */
export function rehearse(kernel: KernelProcess, config: AgentConfig): void {
  const path = join(config.kernelsFolder ?? '', 'rehearsal.sock');
  const server = createServer();
  const runs = serveRuns(new ContextRegistry(config, new OnlyKernel(kernel)), { touch: () => undefined });
  serveUpgrades(server, { [RUNS_UPGRADE]: runs });
  // Nobody depends on it.
  server.on('error', () => undefined);
  rmSync(path, { force: true });
  server.listen(path, () => {
    const socket = connect(path, () => socket.write(`${REQUEST}${startLine(config)}\n`));
    const end = () => socket.destroy();
    const timer = setTimeout(end, TIMEOUT_MS);
    socket.on('error', end);
    socket.on('data', (lines) => lines.includes('"done"') && end());
    socket.on('close', () => {
      clearTimeout(timer);
      server.close();
    });
  });
}

function startLine({ workspace }: AgentConfig): string {
  const limits = { stdoutBytes: BYTES, stderrBytes: BYTES, outputBytes: BYTES, outputsBytes: BYTES };
  const open = { language: 'python', cwd: workspace, timeoutMs: TIMEOUT_MS };
  return JSON.stringify({
    contextId: 'rehearsal',
    open,
    runId: 'rehearsal',
    code: CODE,
    timeoutMs: TIMEOUT_MS,
    limits,
  });
}

/** Gives the contexts of a rehearsal a kernel that stays its supply's, whatever becomes of them. */
class OnlyKernel implements KernelSource {
  readonly environment = {};
  readonly #kernel: KernelProcess;

  constructor(kernel: KernelProcess) {
    this.#kernel = kernel;
  }

  launch(_language: string, _cwd: string, listener: KernelListener): ContextKernel {
    const kernel = this.#kernel;
    // Somebody may have got it since, and then it is not touched.
    let isRehearsing = false;
    queueMicrotask(() => listener.ready());
    return {
      ready: true,
      execute: (runId, code) => {
        isRehearsing = kernel.rehearse({ runId, code, listener });
      },
      setBusy: (busy) => {
        if (isRehearsing) kernel.setBusy(busy);
      },
      drain: () => kernel.drain(),
      pause: () => undefined,
      resume: () => undefined,
      interrupt: () => undefined,
      isCrowded: () => false,
      stop: async () => undefined,
    };
  }

  restock(): void {}

  giveUpForkedKernel(): void {}

  async close(): Promise<void> {}
}
