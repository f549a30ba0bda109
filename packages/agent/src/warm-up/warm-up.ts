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
import type { KernelProcess } from '../kernels/kernel-process.ts';
import type { ContextKernel, KernelProvisioner, KernelRequest } from '../provisioning/kernel-provisioner.ts';
import { serveUpgrades } from '../wire/upgrades.ts';
import { firstRunRequest } from './first-run-request.ts';

const CODE = 'print(1)\n1 + 1';
const COMMAND = ['/bin/echo', '1'];
/** A warm-up takes milliseconds; one whose kernel dies meanwhile never ends by itself. */
const TIMEOUT_MS = 10_000;
const BYTES = 1024;
/** A kernel that is forked in is there long before. */
const IDLE_MS = 250;

/** What is said on one connection: each is sent when the answer to the one before it holds what it says. */
type Conversation = readonly { say: string; until: string }[];

export interface WarmUpOptions {
  config: AgentConfig;
  supervisors: Supervisors;
  /** A kernel that waits for its first run; without it only a command is run. */
  kernel?: KernelProcess;
  /** Whether the agent still has no request, which the command could delay. */
  isWaiting: () => boolean;
}

/**
 * Takes a first run all the way through this program and a waiting kernel, from a new connection to a new context; then a
 * first command, which leaves a supervisor for the next one. A first run takes several times as long as later ones: code is
 * compiled, and shared pages are copied when they are written to. Leaves the kernel as it was.
 */
export function warmUp({ config, supervisors, kernel, isWaiting }: WarmUpOptions): void {
  const folder = config.kernelsFolder ?? '';
  const path = join(folder, 'warm-up.sock');
  const commandLogDir = join(folder, 'warm-up');
  const server = createServer();
  // Nothing depends on a warm-up.
  server.on('error', () => undefined);
  rmSync(path, { force: true });
  server.listen(path, async () => {
    if (kernel) {
      const runs = serveRuns(new ContextRegistry(config, new LentKernel(kernel)), { touch: () => undefined });
      serveUpgrades(server, { [RUNS_UPGRADE]: runs });
      const run = { language: 'python', cwd: config.workspace, code: CODE, timeoutMs: TIMEOUT_MS } as const;
      await converse(path, [{ say: firstRunRequest({ id: 'warm-up', ...run }), until: '"done"' }]);
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
 * Runs a command ahead of the first one, in an agent that was asked for nothing but its health and that no kernel waits in.
 * Calls `hasKernel` once.
 */
export function warmUpCommandOnceIdle(
  server: Server,
  hasKernel: () => boolean,
  options: Pick<WarmUpOptions, 'config' | 'supervisors'>,
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
      if (isWaiting() && !hasKernel()) warmUp({ ...options, isWaiting });
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
  const head = `${method} /commands/warm-up${action} HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\n`;
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function startCommand({ workspace }: AgentConfig): StartCommand {
  const capture = { stdoutBytes: BYTES, stderrBytes: BYTES };
  return { argv: COMMAND, cwd: workspace, env: {}, user: 'user', stdinOpen: false, logBytes: BYTES, capture };
}

/** Lends the contexts of a warm-up a kernel that stays its provisioner's. */
class LentKernel implements KernelProvisioner {
  readonly environment = {};
  readonly #kernel: KernelProcess;

  constructor(kernel: KernelProcess) {
    this.#kernel = kernel;
  }

  hasProcessesFor(): boolean {
    return true;
  }

  provision(_language: string, { listener }: KernelRequest): ContextKernel {
    const kernel = this.#kernel;
    // A context may have got it since, and then it is not touched.
    let isWarmingUp = false;
    queueMicrotask(() => listener.ready());
    return {
      ready: true,
      execute: (runId, code) => {
        isWarmingUp = kernel.warmUp({ runId, code, listener });
      },
      setBusy: (busy) => {
        if (isWarmingUp) kernel.setBusy(busy);
      },
      drain: () => kernel.drain(),
      pause: () => undefined,
      resume: () => undefined,
      interrupt: () => undefined,
      isCrowded: () => false,
      stop: async () => undefined,
    };
  }

  noteUse(): void {}

  async close(): Promise<void> {}
}
