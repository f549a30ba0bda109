import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { reportFailure } from '@cloche/node-support';
import type { StartCommand } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { Gate } from '../base/gate.ts';
import { ensureWorkspace, isWithin, notUsable } from '../base/workspace-folder.ts';
import type { AgentConfig } from '../config.ts';
import { Command } from './command.ts';
import { signalCommand } from './signal-line.ts';
import type { SupervisorOptions } from './supervisor.ts';
import type { Supervisors } from './supervisors.ts';

const MAX_RUNNING = 128;
/** Most ended commands that are kept with their logs. The one that ended first is dropped first. */
const MAX_ENDED = 500;
const MAX_ENDED_LOG_BYTES = 256 * 1024 * 1024;
/** Most bytes of captured output kept for ended commands until it is requested. The oldest is dropped first. */
const MAX_CAPTURED_BYTES = 64 * 1024 * 1024;
const MAX_FORGOTTEN = 100_000;
const ROOT_HOME = '/root';

/** The commands of this sandbox: those that run, and the latest that have ended. */
export class CommandRegistry {
  readonly #config: AgentConfig;
  readonly #clientEnv: () => Readonly<Record<string, string>>;
  readonly #supervisors: Supervisors;
  readonly #gate: Gate;
  readonly #commands = new Map<string, Command>();
  /** Ended commands, in the order in which they ended. */
  #ended: Command[] = [];
  /** Ids of dropped commands, and of those that must never start. A request with one of them starts no command. */
  readonly #forgotten = new Set<string>();

  /** @param gate holds the time limits of commands while it is closed */
  constructor(
    config: AgentConfig,
    clientEnv: () => Readonly<Record<string, string>>,
    supervisors: Supervisors,
    gate = new Gate(),
  ) {
    this.#gate = gate;
    this.#config = config;
    this.#clientEnv = clientEnv;
    this.#supervisors = supervisors;
    rmSync(config.commandLogDir, { recursive: true, force: true });
  }

  get isBusy(): boolean {
    return this.#commands.size > this.#ended.length;
  }

  /** Number of commands whose output a request waits for. */
  get waited(): number {
    return this.#waited().length;
  }

  /** Kills the commands whose output a request waits for. Resolves when they have ended. */
  async killWaited(): Promise<void> {
    await Promise.all(this.#waited().map((command) => command.kill()));
  }

  #waited(): Command[] {
    return [...this.#commands.values()].filter(({ isWaited }) => isWaited);
  }

  /** Returns a command. Throws `not_found`. */
  get(id: string): Command {
    const command = this.#commands.get(id);
    if (command === undefined) throw new AgentError('not_found', `There is no command ${id}.`);
    return command;
  }

  /**
   * Starts a command. Idempotent by id. Resolves when it runs, or when it could not be started.
   * Throws `invalid_cwd`, `queue_full`, `unusable`.
   */
  async start(id: string, request: StartCommand): Promise<Command> {
    const command = this.#commands.get(id) ?? this.#launch(id, request);
    await command.hasStarted().catch((error: unknown) => {
      const { workspace } = this.#config;
      const isWorkspace = error instanceof AgentError && error.code === 'invalid_cwd' && request.cwd === workspace;
      throw isWorkspace ? notUsable(workspace, 'may not be entered by the user') : error;
    });
    return command;
  }

  /** Returns a command. Throws `not_found`, and then the command never starts, however late a request for it comes. */
  prevent(id: string): Command {
    if (!this.#commands.has(id)) this.#remember(id);
    return this.get(id);
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.#commands.values()].map((command) => command.kill()));
  }

  /** Drops all ended commands and their logs. */
  forgetEnded(): void {
    for (const command of [...this.#ended]) this.#forget(command);
  }

  #launch(id: string, request: StartCommand): Command {
    if (this.#forgotten.has(id))
      throw new AgentError('not_found', `The command ${id} has ended, or was given up before it started.`);
    if (this.#commands.size - this.#ended.length >= MAX_RUNNING) {
      throw new AgentError('queue_full', `${MAX_RUNNING} commands are already running.`);
    }
    if (isWithin(request.cwd, this.#config.workspace)) ensureWorkspace(this.#config);
    requireFolder(request.cwd);
    const folder = join(this.#config.commandLogDir, encodeURIComponent(id));
    const { terminal } = request;
    const options = supervisorOptions(this.#config, this.#clientEnv(), request);
    const spec = terminal ? { ...options, terminal } : options;
    const reserve = reserveOptions(this.#config, request, spec);
    const command = new Command(id, request, {
      spec,
      reserve,
      logFolder: folder,
      supervisors: this.#supervisors,
      gate: this.#gate,
    });
    this.#commands.set(id, command);
    // A command that never started is dropped: the request that started it has reported the error.
    command.hasStarted().catch(() => this.#forget(command));
    command
      .hasEnded()
      .then(() => this.#retire(command))
      .catch(reportFailure);
    return command;
  }

  #retire(command: Command): void {
    if (!this.#commands.has(command.id)) return;
    command.log.settle();
    this.#ended.push(command);
    this.#boundCaptures();
    let bytes = this.#ended.reduce((sum, { log }) => sum + log.bytes, 0);
    while (this.#ended.length > MAX_ENDED || bytes > MAX_ENDED_LOG_BYTES) {
      const [oldest] = this.#ended;
      if (oldest === undefined) return;
      bytes -= oldest.log.bytes;
      this.#forget(oldest);
    }
  }

  #boundCaptures(): void {
    let bytes = this.#ended.reduce((sum, { capturedBytes }) => sum + capturedBytes, 0);
    for (const older of this.#ended) {
      if (bytes <= MAX_CAPTURED_BYTES) return;
      bytes -= older.capturedBytes;
      older.releaseCapture();
    }
  }

  #forget(command: Command): void {
    command.log.drop();
    this.#commands.delete(command.id);
    this.#ended = this.#ended.filter((other) => other !== command);
    this.#remember(command.id);
  }

  #remember(id: string): void {
    if (this.#forgotten.size < MAX_FORGOTTEN) this.#forgotten.add(id);
  }
}

/** Returns how to start a command of the sandbox's owner from the reserve of processes; undefined if it may not be. */
function reserveOptions(
  { shell, baseEnv }: AgentConfig,
  request: StartCommand,
  spec: SupervisorOptions,
): SupervisorOptions | undefined {
  if (request.terminal) return undefined;
  if (request.user === 'root') return spec;
  const argv = signalCommand(request, shell);
  // SECURITY: no variable of a client, by which the shell could run a file of the user.
  return argv && { ...spec, argv, env: { PATH: baseEnv.PATH ?? '' } };
}

/** Returns how to start a process for a client: user, folder and environment. */
export function supervisorOptions(
  config: AgentConfig,
  clientEnv: Readonly<Record<string, string>>,
  request: Pick<StartCommand, 'argv' | 'ownShell' | 'cwd' | 'env' | 'user' | 'stdin' | 'stdinOpen'>,
): SupervisorOptions {
  const asRoot = request.user === 'root';
  return {
    argv: runnable(request, config),
    cwd: request.cwd,
    env: {
      ...config.baseEnv,
      ...(asRoot && rootEnvironment(config)),
      ...clientEnv,
      ...request.env,
      PWD: request.cwd,
    },
    uid: asRoot ? 0 : config.uid,
    gid: asRoot ? 0 : config.gid,
    hasInput: request.stdinOpen || (request.stdin ?? '') !== '',
  };
}

/** Returns the arguments. The own shell is `sh` where there is no bash. */
function runnable(
  { argv, ownShell = false }: Pick<StartCommand, 'argv' | 'ownShell'>,
  { shell }: AgentConfig,
): string[] {
  return ownShell ? [shell, ...argv.slice(1)] : argv;
}

/** Returns root's own variables. Root's PATH leaves out the user's folders, where the user could plant programs. */
function rootEnvironment({ baseEnv, home }: AgentConfig): Record<string, string> {
  const PATH = (baseEnv.PATH ?? '')
    .split(':')
    .filter((folder) => !folder.startsWith(home))
    .join(':');
  return { HOME: ROOT_HOME, USER: 'root', LOGNAME: 'root', PATH };
}

function requireFolder(cwd: string): void {
  let isFolder = false;
  try {
    isFolder = cwd.startsWith('/') && statSync(cwd).isDirectory();
  } catch {
    // Reported below.
  }
  if (!isFolder) throw new AgentError('invalid_cwd', 'cwd is not a directory of the sandbox.');
}
