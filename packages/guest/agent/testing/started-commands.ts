import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import type {
  AgentCommand,
  AgentCommandEvent,
  AgentLogEntry,
  CommandResultEvent,
  StartCommand,
} from '@cloche/protocol';
import { StartedAgent } from './started-agent.ts';

export interface CommandResult {
  stdout: string;
  stderr: string;
  command: AgentCommand;
  truncated?: { stdout?: number; stderr?: number };
}

/** Starts commands through a real agent. */
export class StartedCommands implements AsyncDisposable {
  readonly agent: StartedAgent;
  #count = 0;

  private constructor(agent: StartedAgent) {
    this.agent = agent;
  }

  static async start(): Promise<StartedCommands> {
    return new StartedCommands(await StartedAgent.start());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
  }

  /** Starts a command and returns its id. A string is a line for the shell, an array a program with its arguments. */
  async start(command: string | string[], options: Partial<StartCommand> = {}): Promise<string> {
    this.#count += 1;
    const id = `cmd-${this.#count}`;
    const { status, body } = await this.put(id, command, options);
    if (status !== 200) throw new Error(JSON.stringify(body));
    return id;
  }

  put(id: string, command: string | string[], options: Partial<StartCommand> = {}) {
    const argv = typeof command === 'string' ? ['/bin/bash', '-c', command] : command;
    const capture = { stdoutBytes: 1 << 20, stderrBytes: 1 << 20 };
    const base = {
      argv,
      cwd: this.agent.workspace,
      env: {},
      user: 'user',
      stdinOpen: false,
      logBytes: 16 << 20,
      capture,
    };
    return this.agent.call('PUT', `/commands/${id}`, { ...base, ...options });
  }

  async run(command: string | string[], options: Partial<StartCommand> = {}): Promise<CommandResult> {
    return this.result(await this.start(command, options));
  }

  async result(id: string): Promise<CommandResult> {
    const result = { stdout: '', stderr: '' };
    for await (const event of this.#lines<CommandResultEvent>(`/commands/${id}/result`, {})) {
      if (event.type !== 'done') result[event.type] += event.data;
      else return { ...result, ...event };
    }
    throw new Error('the result ended without done');
  }

  async get(id: string): Promise<AgentCommand> {
    return (await this.agent.call('GET', `/commands/${id}`)).body as AgentCommand;
  }

  /** Waits for the end of a command and returns its description. */
  async ended(id: string): Promise<AgentCommand> {
    return (await this.agent.call('GET', `/commands/${id}/end`)).body as AgentCommand;
  }

  async log(id: string, afterSeq = 0, limit = 1000): Promise<{ entries: AgentLogEntry[]; hasMore: boolean }> {
    const { body } = await this.agent.call('POST', `/commands/${id}/logs`, { afterSeq, limit });
    return body as { entries: AgentLogEntry[]; hasMore: boolean };
  }

  follow(id: string, afterSeq = 0): AsyncGenerator<AgentCommandEvent, void> {
    return this.#lines<AgentCommandEvent>(`/commands/${id}/follow`, { afterSeq });
  }

  kill(id: string, signal = 'SIGKILL') {
    return this.agent.call('POST', `/commands/${id}/kill`, { signal });
  }

  write(id: string, text: string, close = false) {
    const dataBase64 = Buffer.from(text).toString('base64');
    return this.agent.call('POST', `/commands/${id}/stdin`, { dataBase64, close });
  }

  /** Waits until the command has printed `text`. */
  async printed(id: string, text: string): Promise<void> {
    let seen = '';
    for await (const event of this.follow(id)) {
      if (event.type === 'exit') throw new Error(`it ended with: ${seen}`);
      seen += event.entry.data;
      if (seen.includes(text)) return;
    }
  }

  async *#lines<T>(path: string, body: unknown): AsyncGenerator<T, void> {
    const response = await this.agent.request('POST', path, body);
    if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`);
    try {
      for await (const line of createInterface({ input: response })) yield JSON.parse(line);
    } finally {
      response.destroy();
    }
  }
}

/** Returns whether the process ends within 20 seconds. */
export async function isGone(pid: number): Promise<boolean> {
  for (let tries = 0; tries < 2000; tries++) {
    try {
      process.kill(pid, 0);
    } catch {
      return true;
    }
    await setTimeout(10);
  }
  return false;
}

/** Returns the pids of an agent's supervisors, including the spare. */
export function supervisorsOf({ process: { pid } }: StartedAgent): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return children.filter((child) => commandLine(child).includes('bin/supervise'));
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    // The process has ended meanwhile.
    return '';
  }
}
