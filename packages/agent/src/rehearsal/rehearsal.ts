import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { RUNS_UPGRADE, type StartCommand } from '@cloche/protocol';
import { CommandRegistry } from '../commands/command-registry.ts';
import { routeCommand } from '../commands/command-routes.ts';
import type { Supervisors } from '../commands/supervisors.ts';
import type { AgentConfig } from '../config.ts';
import { ContextRegistry } from '../contexts/context-registry.ts';
import { serveRuns } from '../contexts/run-connection.ts';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';
import type { ContextKernel, KernelSource } from '../kernels/kernel-source.ts';
import { serveUpgrades } from '../wire/upgrades.ts';
import { firstRunRequest } from './first-run-request.ts';

const CODE = 'print(1)\n1 + 1';
const COMMAND = ['/bin/echo', '1'];
/** It takes milliseconds; a kernel that dies meanwhile never ends it. */
const TIMEOUT_MS = 10_000;
const BYTES = 1024;
/** A kernel that is forked in is there long before. */
const IDLE_MS = 250;

/** What is said on one connection: each is sent when the answer to the one before it holds what it says. */
type Conversation = readonly { say: string; until: string }[];

export interface RehearsalOptions {
  config: AgentConfig;
  supervisors: Supervisors;
  /** One that waits for its first run; without it there is no run to rehearse. */
  kernel?: KernelProcess;
  /** Whether nobody has asked for anything yet: then nobody is kept waiting by the command. */
  isWaiting: () => boolean;
}

/**
 * Takes a first run all the way through this program, and through a kernel that waits for its own: from a connection that
 * is opened for it to a context that is; then a first command, which leaves a supervisor for the next. What neither has ever
 * done takes it several times as long: code is compiled, and pages that are shared until they are written to are copied.
 * Leaves the kernel as it was.
 */
export function rehearse({ config, supervisors, kernel, isWaiting }: RehearsalOptions): void {
  const folder = config.kernelsFolder ?? '';
  const path = join(folder, 'rehearsal.sock');
  const commandLogDir = join(folder, 'rehearsal');
  const server = createServer();
  // Nobody depends on it.
  server.on('error', () => undefined);
  rmSync(path, { force: true });
  server.listen(path, async () => {
    if (kernel) {
      const runs = serveRuns(new ContextRegistry(config, new OnlyKernel(kernel)), { touch: () => undefined });
      serveUpgrades(server, { [RUNS_UPGRADE]: runs });
      const run = { language: 'python', cwd: config.workspace, code: CODE, timeoutMs: TIMEOUT_MS } as const;
      await converse(path, [{ say: firstRunRequest({ id: 'rehearsal', ...run }), until: '"done"' }]);
    }
    if (isWaiting()) {
      const commands = new CommandRegistry({ ...config, commandLogDir }, () => ({}), supervisors);
      server.on('request', (request, response) => {
        const [, , id = '', action] = (request.url ?? '').split('/');
        routeCommand(commands, { id, action }, request, response).catch(() => response.destroy());
      });
      await converse(path, [
        { say: post('PUT', '', startCommand(config)), until: '"status"' },
        { say: post('POST', '/result', {}), until: '"done"' },
      ]);
      commands.forgetEnded();
      rmSync(commandLogDir, { recursive: true, force: true });
    }
    server.close();
  });
}

/**
 * Rehearses a command in an agent that nobody asks for more than whether it is there, and that no kernel waits in.
 * `hasKernel` is asked once.
 */
export function rehearseCommandOnceIdle(
  server: Server,
  hasKernel: () => boolean,
  options: Pick<RehearsalOptions, 'config' | 'supervisors'>,
): void {
  if (options.config.kernelsFolder === undefined) return;
  let isAsked = false;
  const isWaiting = () => !isAsked;
  const note = ({ url }: IncomingMessage) => {
    isAsked ||= url !== '/health';
  };
  server.on('request', note).on('upgrade', note);
  server.once('request', () => {
    setTimeout(() => {
      server.off('request', note).off('upgrade', note);
      if (isWaiting() && !hasKernel()) rehearse({ ...options, isWaiting });
    }, IDLE_MS).unref();
  });
}

/** Resolves when it is over, whether or not all was said. */
function converse(path: string, conversation: Conversation): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const steps = conversation.values();
  let until = '';
  const socket = connect(path, () => next());
  const end = () => socket.destroy();
  const next = () => {
    const { value: step } = steps.next();
    if (step === undefined) return end();
    until = step.until;
    socket.write(step.say);
  };
  const timer = setTimeout(end, TIMEOUT_MS);
  socket.on('error', end);
  socket.on('data', (bytes) => {
    if (bytes.includes(until)) next();
  });
  socket.on('close', () => {
    clearTimeout(timer);
    resolve();
  });
  return promise;
}

function post(method: string, action: string, message: object): string {
  const body = JSON.stringify(message);
  const head = `${method} /commands/rehearsal${action} HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\n`;
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function startCommand({ workspace }: AgentConfig): StartCommand {
  const capture = { stdoutBytes: BYTES, stderrBytes: BYTES };
  return { argv: COMMAND, cwd: workspace, env: {}, user: 'user', stdinOpen: false, logBytes: BYTES, capture };
}

/** Gives the contexts of a rehearsal a kernel that stays its supply's, whatever becomes of them. */
class OnlyKernel implements KernelSource {
  readonly environment = {};
  readonly #kernel: KernelProcess;

  constructor(kernel: KernelProcess) {
    this.#kernel = kernel;
  }

  prepare(): void {}

  hasProcessesFor(): boolean {
    return true;
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
