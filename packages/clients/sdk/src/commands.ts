import type { Command as CommandInfo, CreateCommandBody, SandboxId, Signal } from '@cloche/contract';
import { LIMITS } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { Command } from './command.ts';
import { Deadline } from './deadline.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

/** A shell line, or a program with its arguments. */
export type CommandLine = CreateCommandBody['command'];

export interface CommandOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Default: `/workspace`. */
  cwd?: string | undefined;
  /** Environment variables; they override those of the sandbox. */
  env?: Record<string, string> | undefined;
  stdin?: string | undefined;
  /** `root` is root only inside the sandbox. Default: `user`. */
  user?: CreateCommandBody['user'] | undefined;
  /** Milliseconds after which all processes of the command are ended. Default: 60000 for `run`, none for `start`. */
  timeoutMs?: number | undefined;
}

/** With `onStdout`, `onStderr` or `signal`, output arrives while the command runs, and an abort kills the command. */
export interface RunCommandOptions extends CommandOptions {
  onStdout?: ((text: string) => void | Promise<void>) | undefined;
  /** Also gets the notes of the service that it dropped output, because it was read too slowly. */
  onStderr?: ((text: string) => void | Promise<void>) | undefined;
  signal?: AbortSignal | undefined;
}

export interface StartCommandOptions extends CommandOptions {
  /** Keeps standard input open for `sendStdin`. */
  stdinOpen?: boolean | undefined;
  /** Runs the command in a terminal of this size. All its output is `stdout` then. */
  terminal?: { readonly cols: number; readonly rows: number } | undefined;
}

/** The commands of a sandbox. */
export class Commands {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Runs a command to its end. A failing command does not throw: see `status` and `exitCode`.
   *
   * ```ts
   * const { stdout, exitCode } = await sandbox.commands.run('ls -la | wc -l');
   * ```
   */
  async run(command: CommandLine, options: RunCommandOptions = {}): Promise<CommandInfo> {
    const { onStdout, onStderr, signal, ...rest } = options;
    if (!onStdout && !onStderr && !signal) {
      return (await this.#client.call('createCommand', this.#request(command, rest))).command;
    }
    const timeoutMs = options.timeoutMs ?? LIMITS.commandTimeoutDefaultMs;
    const started = await this.#startUnlessAborted(command, { ...rest, timeoutMs }, signal);
    return this.#followToEnd(started, options);
  }

  /** Starts a command and returns while it runs. */
  async start(command: CommandLine, options: StartCommandOptions = {}): Promise<Command> {
    const { stdinOpen, terminal } = options;
    const request = this.#request(command, options, {
      background: true,
      ...(stdinOpen && { stdinOpen }),
      ...(terminal && { terminal }),
    });
    return new Command(this.#client, (await this.#client.call('createCommand', request)).command);
  }

  /** Lists all commands, oldest first, including ended ones. */
  list(options: PageOptions = {}): PagedList<Command> {
    const params = { sandboxId: this.#sandboxId };
    return pagedList(this.#client, 'listCommands', { ...options, params }, (info) => new Command(this.#client, info));
  }

  /** @throws {ClocheError} `not_found`. */
  async get(commandId: string, options: CallOptions = {}): Promise<Command> {
    // Ids are opaque, so only the service can check them.
    const params = { sandboxId: this.#sandboxId, commandId: commandId as CommandInfo['id'] };
    return new Command(this.#client, (await this.#client.call('getCommand', { ...options, params })).command);
  }

  /**
   * Sends a signal to a command and all processes that it started. Default: `SIGKILL`. Idempotent.
   * @throws {ClocheError} `not_found`.
   */
  async kill(commandId: string, signal?: Signal, options: CallOptions = {}): Promise<Command> {
    return (await this.get(commandId, options)).kill(signal, options);
  }

  /** Rejects at an abort, and kills the command if the service has started it all the same. */
  async #startUnlessAborted(command: CommandLine, options: StartCommandOptions, signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    // Without the signal: only the response names the command that must be killed.
    const starting = this.start(command, options);
    const deadline = new Deadline(Number.POSITIVE_INFINITY, signal);
    try {
      return await deadline.race(starting);
    } catch (error) {
      starting.then((started) => started.kill()).catch(() => undefined);
      throw error;
    } finally {
      deadline.close();
    }
  }

  async #followToEnd(command: Command, { onStdout, onStderr, signal }: RunCommandOptions): Promise<CommandInfo> {
    const [stdout, stderr] = [new KeptText(), new KeptText()];
    try {
      for await (const { stream, data } of command.logs({ signal })) {
        if (stream === 'stdout') stdout.push(data);
        if (stream === 'stderr') stderr.push(data);
        await (stream === 'stdout' ? onStdout : onStderr)?.(data);
      }
    } catch (error) {
      // After an abort or an error, nothing reads the output any more.
      await command.kill().catch(() => undefined);
      throw error;
    }
    const cut = {
      ...(stdout.cutBytes > 0 && { stdout: stdout.cutBytes }),
      ...(stderr.cutBytes > 0 && { stderr: stderr.cutBytes }),
    };
    const truncated = stdout.cutBytes + stderr.cutBytes > 0 && { truncated: cut };
    return { ...command.info, stdout: stdout.text, stderr: stderr.text, ...truncated };
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

/** Keeps as much of a stream as the response of a command without callbacks has. */
class KeptText {
  text = '';
  cutBytes = 0;
  #leftBytes: number = LIMITS.outputStreamBytes;

  push(data: string): void {
    // Counts as the service does: the size as JSON, without the quotes.
    const bytes = utf8Bytes(JSON.stringify(data)) - 2;
    if (bytes > this.#leftBytes) {
      this.cutBytes += utf8Bytes(data);
      this.#leftBytes = 0;
      return;
    }
    this.text += data;
    this.#leftBytes -= bytes;
  }
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
