import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type AgentOutput, type AgentRunEvent, RUNS_UPGRADE, type RunDone, type StartRun } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { buildGuest } from '../src/guest/build-guest.ts';
import { CACHE_DIR } from './test-cache.ts';

const KERNEL_UID = 1000;

export interface Answer {
  status: number;
  body: unknown;
}

/** Everything that a finished run has sent. */
export interface RunResult {
  stdout: string;
  stderr: string;
  outputs: AgentOutput[];
  events: AgentRunEvent[];
  done: RunDone;
  /** Time from the request to `done`. */
  elapsedMs: number;
}

/** A run in progress. */
export interface OpenRun extends AsyncIterable<AgentRunEvent> {
  connection: Socket;
  /** Reads all remaining events and returns the result. */
  result(): Promise<RunResult>;
}

const UPGRADE = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;

export type RunOptions = Partial<Pick<StartRun, 'timeoutMs' | 'runId' | 'open' | 'message'>> & {
  limits?: Partial<StartRun['limits']>;
};

const LIMITS = { stdoutBytes: 8 << 20, stderrBytes: 8 << 20, outputBytes: 4 << 20, outputsBytes: 16 << 20 };

/** A real agent on its own socket. Its kernels are real and run as another user. */
export class StartedAgent implements AsyncDisposable {
  readonly folder: string;
  readonly workspace: string;
  readonly process: ChildProcess;
  readonly #connections = new Agent({ keepAlive: true });
  #runs = 0;

  private constructor(folder: string, child: ChildProcess) {
    this.folder = folder;
    this.workspace = join(folder, 'workspace');
    this.process = child;
  }

  static async start(pythonPath = '', env: NodeJS.ProcessEnv = {}): Promise<StartedAgent> {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-agent-test-'));
    chmodSync(folder, 0o755);
    for (const name of ['workspace', 'home']) {
      mkdirSync(join(folder, name));
      chownSync(join(folder, name), KERNEL_UID, KERNEL_UID);
    }
    const { guestDir } = await buildGuest({ cacheDir: CACHE_DIR });
    const socket = join(folder, 'agent.sock');
    const child = spawn(join(guestDir, 'bin/node'), [join(guestDir, 'agent.cjs')], {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: pythonPath,
        PYTHONDONTWRITEBYTECODE: '1',
        CLOCHE_LISTEN_PATH: socket,
        CLOCHE_GUEST_PATH: guestDir,
        CLOCHE_WORKSPACE: join(folder, 'workspace'),
        CLOCHE_USER_HOME: join(folder, 'home'),
        ...env,
        CLOCHE_COMMAND_LOGS: join(folder, 'logs'),
      },
    });
    const agent = new StartedAgent(folder, child);
    await agent.#answers();
    return agent;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connections.destroy();
    const exit = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await exit;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await this.request(method, path, body);
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) text += chunk;
    return { status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) };
  }

  /** Opens a context in the workspace and returns its id. */
  async open(language = 'python', contextId = `context-${this.#runs++}`): Promise<string> {
    const answer = await this.call('PUT', `/contexts/${contextId}`, {
      language,
      cwd: this.workspace,
      timeoutMs: 30_000,
    });
    if (answer.status !== 200) throw new Error(JSON.stringify(answer));
    return contextId;
  }

  async start(contextId: string, code: string, options: RunOptions = {}): Promise<OpenRun> {
    const startedAt = performance.now();
    const { runId = `run-${this.#runs++}`, timeoutMs = 60_000, limits = {}, open, message } = options;
    const start = { contextId, open, runId, code, message, timeoutMs, limits: { ...LIMITS, ...limits } };
    const connection = connect(join(this.folder, 'agent.sock'));
    await once(connection, 'connect');
    connection.write(`${UPGRADE}${JSON.stringify(start)}\n`);
    const events = readEvents(connection);
    return {
      connection,
      [Symbol.asyncIterator]: () => events,
      result: () => collect(events, startedAt),
    };
  }

  /** Runs code and waits for the result. */
  async run(contextId: string, code: string, options: RunOptions = {}): Promise<RunResult> {
    const run = await this.start(contextId, code, options);
    return run.result();
  }

  async #answers(): Promise<void> {
    const isHealthy = async () => (await this.call('GET', '/health').catch(() => undefined))?.status === 200;
    await eventually(isHealthy, { because: 'the agent answers' });
  }

  /** Resolves with the response, before its body is read. */
  request(method: string, path: string, body?: unknown): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const socketPath = join(this.folder, 'agent.sock');
      const outgoing = request({ socketPath, method, path, agent: this.#connections }, resolve);
      outgoing.on('error', reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

async function* readEvents(connection: Socket): AsyncGenerator<AgentRunEvent> {
  let isAccepted = false;
  for await (const line of createInterface({ input: connection })) {
    if (!isAccepted) {
      isAccepted = line === '';
      continue;
    }
    const event = JSON.parse(line);
    if (event.error) throw new Error(`the run was refused with ${event.error.code}`);
    yield event;
    if (event.type === 'done') break;
  }
  connection.destroy();
}

async function collect(events: AsyncIterable<AgentRunEvent>, startedAt: number): Promise<RunResult> {
  const result = { stdout: '', stderr: '', outputs: [] as AgentOutput[], events: [] as AgentRunEvent[] };
  for await (const event of events) {
    result.events.push(event);
    if (event.type === 'stdout' || event.type === 'stderr') result[event.type] += event.data;
    else if (event.type === 'output') result.outputs.push(event.data);
  }
  const last = result.events.at(-1);
  if (last?.type !== 'done') throw new Error('the stream ended without done');
  return { ...result, done: last.data, elapsedMs: performance.now() - startedAt };
}
