import type { Command as CommandInfo, CreateCommandBody, SandboxId } from '@cloche/contract';
import { LIMITS } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { Command } from './command.ts';
import type { CallOptions } from './request.ts';

/** A line for the shell, or a program with its arguments. */
export type CommandLine = CreateCommandBody['command'];

export interface CommandOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Default: `/workspace`. */
  cwd?: string | undefined;
  /** Over the sandbox's. */
  env?: Record<string, string> | undefined;
  stdin?: string | undefined;
  /** `root` is the root of the sandbox alone. Default: `user`. */
  user?: CreateCommandBody['user'] | undefined;
  /** Milliseconds after which all of its processes end. Default of `run`: 60000; `start` has none. */
  timeoutMs?: number | undefined;
}

/** With any of the three, output arrives while the command runs, and an abort kills it. */
export interface RunCommandOptions extends CommandOptions {
  onStdout?: ((text: string) => void | Promise<void>) | undefined;
  onStderr?: ((text: string) => void | Promise<void>) | undefined;
  signal?: AbortSignal | undefined;
}

/** The commands of one sandbox. */
export class Commands {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Runs a command to its end. One that fails is no error here: see `status` and `exitCode`.
   *
   * ```ts
   * const { stdout, exitCode } = await sandbox.commands.run('ls -la | wc -l');
   * ```
   */
  async run(command: CommandLine, options: RunCommandOptions = {}): Promise<CommandInfo> {
    const { onStdout, onStderr, ...rest } = options;
    if (!onStdout && !onStderr && !options.signal) {
      return (await this.#client.call('createCommand', this.#request(command, rest))).command;
    }
    const timeoutMs = options.timeoutMs ?? LIMITS.commandTimeoutDefaultMs;
    const started = await this.start(command, { ...rest, timeoutMs });
    return this.#attend(started, options);
  }

  /** Starts a command and leaves it running. `stdinOpen` keeps its standard input open for `sendStdin`. */
  async start(command: CommandLine, options: CommandOptions & { stdinOpen?: boolean } = {}): Promise<Command> {
    const request = this.#request(command, options, {
      background: true,
      ...(options.stdinOpen && { stdinOpen: true }),
    });
    return new Command(this.#client, (await this.#client.call('createCommand', request)).command);
  }

  /** Oldest first; ended ones too. */
  async list(options: CallOptions = {}): Promise<Command[]> {
    const params = { sandboxId: this.#sandboxId };
    const { data } = await this.#client.call('listCommands', { ...options, params });
    return data.map((info) => new Command(this.#client, info));
  }

  /** @throws {ClocheError} `not_found`. */
  async get(commandId: string, options: CallOptions = {}): Promise<Command> {
    // Ids are opaque: the service tells which exist, whatever they look like.
    const params = { sandboxId: this.#sandboxId, commandId: commandId as CommandInfo['id'] };
    return new Command(this.#client, (await this.#client.call('getCommand', { ...options, params })).command);
  }

  async #attend(command: Command, { onStdout, onStderr, signal }: RunCommandOptions): Promise<CommandInfo> {
    const output = { stdout: '', stderr: '' };
    try {
      for await (const { stream, data } of command.logs({ signal })) {
        if (stream === 'system') continue;
        output[stream] += data;
        await (stream === 'stdout' ? onStdout : onStderr)?.(data);
      }
    } catch (error) {
      // Nobody reads what it would print from now on.
      await command.kill().catch(() => undefined);
      throw error;
    }
    return { ...command.info, ...output };
  }

  #request(command: CommandLine, options: CommandOptions, more: Partial<CreateCommandBody> = {}) {
    const { cwd, env, stdin, user, timeoutMs, signal, idempotencyKey, maxRetries } = options;
    const body: CreateCommandBody = {
      command,
      ...more,
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { env }),
      ...(stdin === undefined ? {} : { stdin }),
      ...(user === undefined ? {} : { user }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    };
    return { params: { sandboxId: this.#sandboxId }, body, signal, idempotencyKey, maxRetries };
  }
}
