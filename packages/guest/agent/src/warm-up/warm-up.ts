import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { RUNS_UPGRADE, type StartCommand } from '@cloche/protocol';
import { CommandRegistry } from '../commands/command-registry.ts';
import { routeCommand } from '../commands/command-routes.ts';
import type { Supervisors } from '../commands/supervisors.ts';
import type { AgentConfig } from '../config.ts';
import { ContextRegistry } from '../contexts/context-registry.ts';
import { serveRuns } from '../contexts/run-connection.ts';
import type { FilePath } from '../files/file-path.ts';
import { FileSystem } from '../files/file-system.ts';
import { removeOwnTree } from '../files/remove-tree.ts';
import { UserRights } from '../files/rights.ts';
import { temporaryIn } from '../files/temporary.ts';
import { FileRequests } from '../http/file-requests.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';
import type { ContextKernel, KernelProvisioner, KernelRequest } from '../provisioning/kernel-provisioner.ts';
import { serveUpgrades } from '../wire/upgrades.ts';
import { firstRunRequest } from './first-run-request.ts';
import { smallArchive } from './small-archive.ts';

const CODE = 'print(1)\n1 + 1';
const COMMAND = ['/bin/echo', '1'];
/** Longest time of a warm-up, which normally takes milliseconds. Without it, a kernel that dies would leave it open. */
const TIMEOUT_MS = 10_000;
const BYTES = 1024;
/** Time without a request after which a command is run ahead. A forked kernel arrives long before. */
const IDLE_MS = 250;

/**
 * Time after the command until an archive is unpacked ahead, so that instances that are claimed at once pay nothing for
 * it.
 */
const UNPACK_AFTER_MS = 1000;
/**
 * Where the user may write. Not in the workspace, which a program may list at the moment at which the folder is there.
 */
const UNPACK_IN = '/var/tmp' as FilePath;

/** Steps on one connection. Each is sent when the answer to the previous one contains its `until`. */
type Conversation = readonly { say: string | Buffer; until: string }[];

export interface WarmUpOptions {
  config: AgentConfig;
  supervisors: Supervisors;
  /** A kernel that waits for its first run. Without one, only a command is run. */
  kernel?: KernelProcess;
  /** Whether the agent still has no request, which the command would delay. */
  isWaiting: () => boolean;
}

/**
 * Runs a cell in a waiting kernel through all parts of the agent, from a new connection to a new context. Then runs a
 * command, which leaves a spare supervisor. A first run takes several times as long as later ones, because code is
 * compiled and shared pages are copied on write. A first `1+1` takes 13.0 ms from the creation of its sandbox; with a
 * warm-up of the middle parts alone it took 19.7. Leaves the kernel unchanged.
 */
export function warmUp({ supervisors, kernel, isWaiting, ...options }: WarmUpOptions): void {
  // Not in the workspace, which root may be replacing just now, and which the agent would make again.
  const config = { ...options.config, workspace: '/' };
  const folder = config.kernelsFolder ?? '';
  const path = join(folder, 'warm-up.sock');
  const commandLogDir = join(folder, 'warm-up');
  const server = createServer();
  // A failed warm-up only costs speed.
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
      server.removeAllListeners('request');
      await delay(UNPACK_AFTER_MS, undefined, { ref: false });
    }
    if (isWaiting()) await unpackAhead(config, server, path);
    server.close();
  });
}

/** Unpacks an archive and removes what it held. The code that unpacks is compiled by then. */
async function unpackAhead(config: AgentConfig, server: Server, path: string): Promise<void> {
  const files = new FileRequests(config);
  server.on('request', (request, response) => {
    files.answer(request, response).catch(() => response.destroy());
  });
  const folder = temporaryIn(UNPACK_IN);
  const archive = smallArchive();
  const query = new URLSearchParams({ path: folder, user: 'user' });
  const head = `PUT /files/archive?${query} HTTP/1.1\r\nhost: agent\r\ncontent-length: ${archive.length}\r\n\r\n`;
  await converse(path, [{ say: Buffer.concat([Buffer.from(head), archive]), until: '"entries"' }]);
  await removeOwnTree(folder, new FileSystem(new UserRights(config)));
}

/**
 * Runs a command ahead of the first one, if the agent has had no request but hostd's and has no waiting kernel.
 * Calls `hasKernel` at most once.
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
    isAsked ||= url !== '/health' && !url?.startsWith('/spare-kernels/');
  };
  server.on('request', note).on('upgrade', note);
  server.once('request', () => {
    setTimeout(() => {
      server.off('request', note).off('upgrade', note);
      if (isWaiting() && !hasKernel()) warmUp({ ...options, isWaiting });
    }, IDLE_MS).unref();
  });
}

/** Sends the steps. Resolves when the connection is closed, even if not all steps were sent. */
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

/** Lends a kernel to the contexts of a warm-up. The kernel still belongs to its provisioner. */
class LentKernel implements KernelProvisioner {
  readonly environment = {};
  readonly #kernel: KernelProcess;

  constructor(kernel: KernelProcess) {
    this.#kernel = kernel;
  }

  hasProcessesFor(): boolean {
    return true;
  }

  countRefusals(): number {
    return 0;
  }

  provision(_language: string, { listener }: KernelRequest): ContextKernel {
    const kernel = this.#kernel;
    // If a real context has taken the kernel meanwhile, `warmUp` returns false and the kernel is not touched.
    let isWarmingUp = false;
    queueMicrotask(() => listener.ready());
    return {
      ready: true,
      execute: ({ id: runId, code }) => {
        isWarmingUp = kernel.warmUp({ runId, code, listener });
      },
      setBusy: (busy) => {
        if (isWarmingUp) kernel.setBusy(busy);
      },
      drain: () => kernel.drain(),
      pause: () => undefined,
      resume: () => undefined,
      interrupt: () => undefined,
      answer: () => undefined,
      isCrowded: () => false,
      stop: async () => undefined,
    };
  }

  recordUse(): void {}

  async close(): Promise<void> {}
}
