import { onAbort, orAbort } from '@cloche/node-support';
import type { AgentRunEvent, Language, OpenContext, RunDone, RunError, RunOperation } from '@cloche/protocol';
import { type AgentClient, AgentError, type RunCell } from '@cloche/runtime';
import { FakeCommands } from './fake-commands.ts';
import { FakeDisk } from './fake-disk.ts';
import { FakeFiles } from './fake-files.ts';
import { FakePorts } from './fake-ports.ts';
import { FakeRun, interpret, type RunScope } from './fake-run.ts';
import { parseMessage, parseToy, type Statement } from './toy-language.ts';

interface FakeContext {
  readonly language: Language;
  readonly cwd: string;
  variables: Map<string, string>;
  count: number;
  stateLost: boolean;
  queue: Promise<void>;
  readonly runs: Set<FakeRun>;
}

const CANCELED: RunError = { name: 'CanceledError', message: 'canceled' };

/** The agent of one fake instance. Runs the toy language, one run at a time in each context. */
export class FakeAgent {
  readonly contexts = new Map<string, FakeContext>();
  readonly commands = new FakeCommands(() => this.#requireOpen());
  readonly disk: FakeDisk;
  readonly files: FakeFiles;
  readonly languages: readonly string[];
  readonly ports = new FakePorts();
  environment: Readonly<Record<string, string>> = {};
  permitsSudo = false;
  /** Number of requests to open a context. */
  opened = 0;
  /** If set, opening a context waits for it. */
  openGate: Promise<void> | undefined;
  /** If set, what the agent says, or throws, when it is asked whether anything runs. */
  claim: boolean | Error | undefined;
  /** How often the agent was asked whether anything runs. */
  asked = 0;
  /** Requests whose code is being executed, of those that name their idempotency record. */
  readonly executing = new Set<RunOperation>();
  /** Called before the code of such a request is executed. */
  onExecution: (operation: RunOperation) => void = () => undefined;
  readonly #closed = new Set<string>();
  readonly #claims = new Map<string, { readonly claim: number; readonly run: FakeRun }>();
  readonly #onVanish: () => void;
  readonly #watchers = new Set<() => void>();
  #alive = true;
  /** Token of the pause for which the gate is closed. */
  #pausedBy: string | undefined;

  constructor(languages: readonly string[], onVanish: () => void, disk = new FakeDisk()) {
    this.languages = languages;
    this.disk = disk;
    this.files = new FakeFiles(() => this.#requireOpen(), 'user', disk);
    this.#onVanish = onVanish;
  }

  /** Breaks all connections, at once and for good. */
  kill(): void {
    this.#alive = false;
    for (const context of this.contexts.values()) {
      for (const run of context.runs) run.queue.fail(new AgentError('gone', 'the connection broke'));
    }
    this.contexts.clear();
    this.ports.close();
    this.commands.vanish();
    for (const onBroken of this.#watchers) onBroken();
    this.#watchers.clear();
  }

  client(onBroken: () => void = () => {}): AgentClient {
    this.#watchers.add(onBroken);
    return {
      commands: this.commands,
      files: this.files,
      pause: async (token, { force }) => this.#pause(token, force),
      resume: async (token) => {
        this.#requireAlive();
        if (this.#pausedBy === token) this.#pausedBy = undefined;
      },
      isRunning: async (signal) => {
        this.#requireAlive();
        signal.throwIfAborted();
        this.asked += 1;
        if (this.claim instanceof Error) throw this.claim;
        if (this.claim !== undefined) return this.claim;
        const inContexts = [...this.contexts.values()].some(({ runs }) => runs.size > 0);
        return inContexts || this.commands.areRunning;
      },
      permitSudo: async () => {
        this.#requireOpen();
        this.permitsSudo = true;
      },
      setEnvironment: async (env) => {
        this.#requireOpen();
        this.environment = env;
      },
      openContext: (id, request, signal) => this.#open(id, request, signal),
      closeContext: async (id) => {
        this.#requireOpen();
        this.#cancelRuns(id);
        this.contexts.delete(id);
        this.#closed.add(id);
      },
      interrupt: async (id) => {
        const [current] = this.#get(id).runs;
        current?.end(CANCELED);
      },
      answer: async (id, message) => {
        const [current] = this.#get(id).runs;
        current?.answers.push(message);
      },
      restart: async (id) => {
        const context = this.#get(id);
        const [current] = context.runs;
        current?.end(CANCELED);
        context.variables = new Map();
      },
      run: (id, request, signal) => this.#run(id, request, signal),
      openTunnel: async (port, signal) => {
        this.#requireOpen();
        return this.ports.connect(port, signal);
      },
      close: async () => {
        this.#watchers.delete(onBroken);
      },
    };
  }

  #pause(token: string, force: boolean): { running: number } | undefined {
    this.#requireAlive();
    if (this.#pausedBy === token) return undefined;
    const runs = [...this.contexts.values()].flatMap((context) => [...context.runs]);
    const running = runs.length + this.commands.waited;
    if (running > 0 && !force) return { running };
    this.#pausedBy = token;
    for (const run of runs) run.end(CANCELED);
    this.commands.killWaited();
    this.commands.cutReaders();
    this.files.cutWatches();
    return undefined;
  }

  async #open(
    id: string,
    { language, cwd }: OpenContext,
    signal: AbortSignal,
  ): Promise<{ cwd: string; language: Language }> {
    this.#requireOpen();
    this.opened += 1;
    if (this.openGate) await orAbort(this.openGate, signal);
    this.#requireOpen();
    if (this.#closed.has(id)) throw new AgentError('not_found', `${id} was closed`);
    if (!this.languages.includes(language)) throw new AgentError('language_unavailable', `no ${language} here`);
    if (cwd !== '/workspace' && !cwd.startsWith('/workspace/')) throw new AgentError('invalid_cwd', 'outside');
    const fresh = {
      variables: new Map(),
      count: 0,
      stateLost: false,
      queue: Promise.resolve(),
      runs: new Set<FakeRun>(),
    };
    const context = this.contexts.get(id) ?? { language, cwd, ...fresh };
    this.contexts.set(id, context);
    return { cwd: context.cwd, language: context.language };
  }

  async *#run(
    id: string,
    { runId, code, message, timeoutMs, open, operation }: RunCell,
    signal: AbortSignal,
  ): AsyncGenerator<AgentRunEvent, void> {
    if (open) await this.#open(id, open, signal);
    const context = this.#get(id);
    signal.throwIfAborted();
    const run = new FakeRun(runId, () => run.end(CANCELED));
    if (operation) this.#enter(operation, run);
    using _ = onAbort(signal, () => run.queue.fail(signal.reason));
    context.runs.add(run);
    const timer = setTimeout(() => {
      if (!run.deaf) run.end({ name: 'TimeoutError', message: `not done within ${timeoutMs} ms` });
    }, timeoutMs);
    const statements = message === undefined ? parseToy(code) : parseMessage(message);
    context.queue = context.queue.then(() => this.#execute(context, run, statements, operation));
    try {
      yield* run.queue;
    } finally {
      clearTimeout(timer);
      context.runs.delete(run);
    }
  }

  /** Ends the run of a lower claim; refuses one that is lower itself. */
  #enter({ recordId, claim }: RunOperation, run: FakeRun): void {
    const latest = this.#claims.get(recordId);
    if (latest && latest.claim > claim) throw new AgentError('conflict', 'a later claim executes the request');
    this.#claims.set(recordId, { claim, run });
    if (latest && latest.claim < claim) latest.run.end(CANCELED);
  }

  async #execute(
    context: FakeContext,
    run: FakeRun,
    statements: Statement[],
    operation: RunOperation | undefined,
  ): Promise<void> {
    const { id: runId } = run;
    const startedAt = performance.now();
    // What was ended while it waited is not executed.
    if (!run.isOver) {
      if (operation) this.onExecution(operation);
      if (operation) this.executing.add(operation);
      interpret(statements, run, this.#scopeOf(context)).then(() => run.end('completed'), run.end.bind(run));
    }
    const ending = await run.ended.promise;
    if (operation) this.executing.delete(operation);
    context.count += 1;
    const done: RunDone = {
      executionCount: context.count,
      durationMs: Math.round(performance.now() - startedAt),
      ...(ending === 'completed' ? {} : { error: ending }),
      ...(run.truncated > 0 ? { truncated: { stdout: run.truncated } } : {}),
      ...(context.stateLost ? { stateLost: true } : {}),
    };
    context.stateLost = ending !== 'completed' && ending.name === 'KernelDiedError';
    if (context.stateLost) context.variables = new Map();
    if (ending !== 'completed') run.queue.push({ type: 'error', runId, data: ending });
    run.queue.push({ type: 'done', runId, data: done });
    run.queue.close();
  }

  #scopeOf(context: FakeContext): RunScope {
    return {
      context,
      ports: this.ports,
      vanish: () => {
        this.kill();
        this.#onVanish();
      },
    };
  }

  #cancelRuns(id: string): void {
    for (const run of this.contexts.get(id)?.runs ?? []) run.end(CANCELED);
  }

  #get(id: string): FakeContext {
    this.#requireOpen();
    const context = this.contexts.get(id);
    if (!context) throw new AgentError('not_found', `no context ${id}`);
    return context;
  }

  /** Refuses what the gate keeps out. */
  #requireOpen(): void {
    this.#requireAlive();
    if (this.#pausedBy !== undefined) throw new AgentError('pausing', 'the sandbox is about to be paused');
  }

  #requireAlive(): void {
    if (!this.#alive) throw new AgentError('gone', 'the agent does not answer');
  }
}
