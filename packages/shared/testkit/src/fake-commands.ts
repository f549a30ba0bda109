import { orAbort, reportFailure } from '@cloche/node-support';
import type { AgentCommand, AgentCommandEvent, AgentLogEntry, AgentLogPage, StartCommand } from '@cloche/protocol';
import { type AgentCommandResult, type AgentCommands, AgentError } from '@cloche/runtime';
import { parseToy, type Statement } from './toy-language.ts';

/** Standard output of `unpack-image.cjs inspect` for an image in a registry. */
const INSPECTED_IMAGE = `{"digest":"sha256:${'0'.repeat(64)}","config":{"env":{"A":"1"}}}\n`;

class FakeCommand {
  readonly request: StartCommand;
  readonly entries: AgentLogEntry[] = [];
  readonly ended = Promise.withResolvers<void>();
  state: AgentCommand;
  input = '';
  inputOpen: boolean;
  #changed = Promise.withResolvers<void>();

  constructor(id: string, request: StartCommand) {
    this.request = request;
    this.state = { id, status: 'running' };
    this.input = request.stdin ?? '';
    this.inputOpen = request.stdinOpen;
    // Prevents unhandled rejections.
    this.ended.promise.catch(() => undefined);
    this.#changed.promise.catch(() => undefined);
  }

  print(stream: 'stdout' | 'stderr', data: string): void {
    this.entries.push({ seq: this.entries.length + 1, stream, data, at: Date.now() });
    this.#wake();
  }

  end(state: Omit<AgentCommand, 'id'>): void {
    if (this.state.status !== 'running') return;
    this.state = { id: this.state.id, durationMs: 1, ...state };
    this.inputOpen = false;
    this.ended.resolve();
    this.#wake();
  }

  vanish(): void {
    const fault = new AgentError('gone', 'the connection broke');
    this.ended.reject(fault);
    this.#changed.reject(fault);
  }

  /** Breaks the connections of those who follow its log. */
  cutReaders(): void {
    const before = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    this.#changed.promise.catch(() => undefined);
    before.reject(new AgentError('gone', 'the connection broke'));
  }

  changed(): Promise<void> {
    return this.#changed.promise;
  }

  wakeReaders(): void {
    this.#wake();
  }

  #wake(): void {
    const before = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    this.#changed.promise.catch(() => undefined);
    before.resolve();
  }
}

/**
 * The commands of a fake instance. A command's last argument is a program of the toy language, whose statements may be
 * separated by semicolons. It has `print`, `warn`, `sleep` and `hang`, and also `exit CODE`, `read` (prints a line of
 * standard input) and `env NAME`.
 */
export class FakeCommands implements AgentCommands {
  readonly #commands = new Map<string, FakeCommand>();
  readonly #prevented = new Set<string>();
  readonly #requireAlive: () => void;
  /** Number of commands that were started, without repeated requests. */
  started = 0;

  constructor(requireAlive: () => void) {
    this.#requireAlive = requireAlive;
  }

  get areRunning(): boolean {
    return [...this.#commands.values()].some(({ state }) => state.status === 'running');
  }

  /** Number of running commands whose output a request waits for. */
  get waited(): number {
    return this.#waited().length;
  }

  /** Kills the commands whose output a request waits for. */
  killWaited(): void {
    for (const command of this.#waited()) command.end({ status: 'killed', exitCode: 137, signal: 'SIGKILL' });
  }

  #waited(): FakeCommand[] {
    const commands = [...this.#commands.values()];
    return commands.filter(({ request, state }) => request.capture !== undefined && state.status === 'running');
  }

  /** Returns the state of a command that the agent knows. */
  stateOf(id: string): AgentCommand | undefined {
    return this.#commands.get(id)?.state;
  }

  /** Breaks all connections. */
  vanish(): void {
    for (const command of this.#commands.values()) command.vanish();
  }

  /** Breaks the connections of those who follow logs. */
  cutReaders(): void {
    for (const command of this.#commands.values()) command.cutReaders();
  }

  /** Forgets a command, as an agent forgets the oldest ones. */
  forget(id: string): void {
    this.#commands.delete(id);
  }

  async start(id: string, request: StartCommand): Promise<AgentCommand> {
    this.#requireAlive();
    const known = this.#commands.get(id);
    if (known) return known.state;
    if (this.#prevented.has(id)) throw new AgentError('not_found', `the command ${id} was given up`);
    if (request.cwd.startsWith('/missing')) throw new AgentError('invalid_cwd', 'no such folder');
    const command = new FakeCommand(id, request);
    this.#commands.set(id, command);
    this.started += 1;
    if (request.argv[0] === 'missing') {
      command.end({ status: 'failed', exitCode: 127, failureReason: 'missing: No such file or directory' });
    } else this.#execute(command).catch(reportFailure);
    return command.state;
  }

  async prevent(id: string): Promise<AgentCommand> {
    this.#requireAlive();
    this.#prevented.add(id);
    return this.#get(id).state;
  }

  async get(id: string): Promise<AgentCommand> {
    return this.#get(id).state;
  }

  async end(id: string, signal: AbortSignal): Promise<AgentCommand> {
    const command = this.#get(id);
    await orAbort(command.ended.promise, signal);
    return command.state;
  }

  async result(id: string, signal: AbortSignal): Promise<AgentCommandResult> {
    const command = this.#get(id);
    await orAbort(command.ended.promise, signal);
    const textOf = (wanted: string) =>
      command.entries.map(({ stream, data }) => (stream === wanted ? data : '')).join('');
    return { command: command.state, stdout: textOf('stdout'), stderr: textOf('stderr'), truncated: undefined };
  }

  async readLog(id: string, afterSeq: number, limit: number): Promise<AgentLogPage> {
    const rest = this.#get(id).entries.slice(afterSeq);
    return { entries: rest.slice(0, limit), hasMore: rest.length > limit };
  }

  async *follow(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<AgentCommandEvent, void> {
    const command = this.#get(id);
    for (let seen = afterSeq; ; ) {
      const entry = command.entries[seen];
      if (entry) {
        seen = entry.seq;
        yield { type: 'log', entry };
      } else if (command.state.status !== 'running') return yield { type: 'exit', command: command.state };
      else await orAbort(command.changed(), signal);
    }
  }

  async writeStdin(id: string, bytes: Buffer, close: boolean): Promise<void> {
    const command = this.#get(id);
    if (!command.inputOpen) throw new AgentError('conflict', 'standard input is closed');
    command.input += bytes.toString();
    if (close) command.inputOpen = false;
    command.wakeReaders();
  }

  async resize(id: string): Promise<void> {
    const { request, state } = this.#get(id);
    if (!request.terminal || state.status !== 'running') throw new AgentError('conflict', 'no terminal');
  }

  async kill(id: string, name: string): Promise<AgentCommand> {
    const command = this.#get(id);
    const number = name === 'SIGTERM' ? 15 : 9;
    if (name === 'SIGKILL' || name === 'SIGTERM') {
      command.end({ status: 'killed', exitCode: 128 + number, signal: name });
    }
    return command.state;
  }

  /** Throws, because a fake has no terminals. */
  async openTerminal(id: string): Promise<never> {
    throw new AgentError('not_found', `no terminal ${id}`);
  }

  async #execute(command: FakeCommand): Promise<void> {
    const { timeoutMs, argv } = command.request;
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => command.end({ status: 'timed_out', exitCode: 137, signal: 'SIGKILL' }), timeoutMs);
    const inspects = argv.at(-2) === 'inspect';
    if (inspects) command.print('stdout', INSPECTED_IMAGE);
    for (const statement of inspects ? [] : parseToy((argv.at(-1) ?? '').replaceAll('; ', '\n'))) {
      if (command.state.status !== 'running') break;
      await this.#step(command, statement);
    }
    command.end({ status: 'exited', exitCode: 0 });
    clearTimeout(timer);
  }

  async #step(command: FakeCommand, { verb, text }: Statement): Promise<void> {
    const ended = command.ended.promise.catch(() => undefined);
    switch (verb) {
      case 'print':
        return command.print('stdout', `${text}\n`);
      case 'warn':
        return command.print('stderr', `${text}\n`);
      case 'env':
        return command.print('stdout', `${command.request.env[text]}\n`);
      case 'sleep':
        await Promise.race([new Promise((resolve) => setTimeout(resolve, Number(text))), ended]);
        return;
      case 'hang':
        return ended;
      case 'exit':
        return command.end({ status: 'exited', exitCode: Number(text) });
      case 'read':
        while (!command.input.includes('\n') && command.inputOpen) await command.changed().catch(() => undefined);
        command.print('stdout', `${command.input.split('\n')[0]}\n`);
        command.input = command.input.slice(command.input.indexOf('\n') + 1);
        return;
      default:
        command.print('stderr', `${verb}: command not found\n`);
        return command.end({ status: 'exited', exitCode: 127 });
    }
  }

  #get(id: string): FakeCommand {
    this.#requireAlive();
    const command = this.#commands.get(id);
    if (!command) throw new AgentError('not_found', `no command ${id}`);
    return command;
  }
}
