import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { StartCommand } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import type { AgentConfig } from '../config.ts';
import { Command } from './command.ts';
import type { SupervisorSpec } from './supervisor.ts';
import type { Supervisors } from './supervisors.ts';

const MAX_RUNNING = 128;
/** Ended ones that are remembered with their logs; the one that ended first goes first. */
const MAX_ENDED = 500;
const MAX_ENDED_LOG_BYTES = 256 * 1024 * 1024;
/** What ended ones have printed and nobody has asked for yet; the output that ended first goes first. */
const MAX_CAPTURED_BYTES = 64 * 1024 * 1024;
const MAX_FORGOTTEN = 100_000;
const ROOT_HOME = '/root';

/** The commands of this sandbox: those that run, and for a while those that have ended. */
export class CommandRegistry {
  readonly #config: AgentConfig;
  readonly #clientEnv: () => Readonly<Record<string, string>>;
  readonly #supervisors: Supervisors;
  readonly #commands = new Map<string, Command>();
  /** In the order of their ends. */
  #ended: Command[] = [];
  /** An id that is not known any more must not start a second command. */
  readonly #forgotten = new Set<string>();

  constructor(config: AgentConfig, clientEnv: () => Readonly<Record<string, string>>, supervisors: Supervisors) {
    this.#config = config;
    this.#clientEnv = clientEnv;
    this.#supervisors = supervisors;
    rmSync(config.commandLogDir, { recursive: true, force: true });
  }

  /** Throws `not_found`. */
  get(id: string): Command {
    const command = this.#commands.get(id);
    if (command === undefined) throw new AgentError('not_found', `There is no command ${id}.`);
    return command;
  }

  /** Idempotent by id. Resolves when it runs, or could not be started. Throws `invalid_cwd`, `queue_full`. */
  async start(id: string, request: StartCommand): Promise<Command> {
    const command = this.#commands.get(id) ?? this.#launch(id, request);
    await command.hasStarted();
    return command;
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.#commands.values()].map((command) => command.kill()));
  }

  /** Those that have ended are known no more, and what they wrote is gone. */
  forgetEnded(): void {
    for (const command of [...this.#ended]) this.#forget(command);
  }

  #launch(id: string, request: StartCommand): Command {
    if (this.#forgotten.has(id))
      throw new AgentError('not_found', `The command ${id} has ended and is no longer kept.`);
    if (this.#commands.size - this.#ended.length >= MAX_RUNNING) {
      throw new AgentError('queue_full', `${MAX_RUNNING} commands are already running.`);
    }
    requireFolder(request.cwd);
    const folder = join(this.#config.commandLogDir, encodeURIComponent(id));
    const spec = supervisorSpec(this.#config, this.#clientEnv(), request);
    const command = new Command(id, request, spec, folder, this.#supervisors);
    this.#commands.set(id, command);
    // One that never was is not remembered: its client has been told why.
    command.hasStarted().catch(() => this.#forget(command));
    void command.hasEnded().then(() => this.#retire(command));
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
    if (this.#forgotten.size < MAX_FORGOTTEN) this.#forgotten.add(command.id);
  }
}

/** How a process of the client's is started: as whom, where, and in which environment. */
export function supervisorSpec(
  config: AgentConfig,
  clientEnv: Readonly<Record<string, string>>,
  request: Pick<StartCommand, 'argv' | 'cwd' | 'env' | 'user' | 'stdin' | 'stdinOpen'>,
): SupervisorSpec {
  const asRoot = request.user === 'root';
  return {
    argv: request.argv,
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

/** Root looks nothing up in a folder of the user's. */
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
    // Told below.
  }
  if (!isFolder) throw new AgentError('invalid_cwd', 'cwd is not a directory of the sandbox.');
}
