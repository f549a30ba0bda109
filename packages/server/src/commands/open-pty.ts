import type { Duplex } from 'node:stream';
import type { CommandUser, SandboxId } from '@cloche/contract';
import { ByteFrames, encodeByteFrame } from '@cloche/protocol';
import type { AgentConnections } from '../agent-client/agent-connections.ts';
import type { Credential } from '../api-keys/credential.ts';
import { AppError, notFound } from '../base/app-error.ts';
import { Deadline } from '../base/deadline.ts';
import type { IdSource } from '../base/id-source.ts';
import { AgentFault } from '../driver/runtime-driver.ts';
import type { ClientSocket } from '../http/route.ts';
import type { Executions } from '../sandboxes/record/executions.ts';
import { isPending, type SandboxRecord } from '../sandboxes/record/sandbox.ts';
import { requireLive, type SandboxAccess } from '../sandboxes/record/sandbox-access.ts';
import type { AwaitSandbox } from '../sandboxes/use/await-sandbox.ts';
import type { JudgeFault } from '../sandboxes/use/judge-fault.ts';

const OPEN_MS = 60_000;
/** What a client has not taken yet before its terminal waits. */
const MAX_UNSENT = 64;
/** What a client may have typed that its shell has not taken. */
const MAX_TYPED_BYTES = 1024 * 1024;
const TOO_MANY = 'The sandbox has too many open terminals; close one.';
const TOO_WATCHED = 'The terminal has its maximum number of clients; disconnect one.';

export interface OpenPtyDeps {
  readonly access: SandboxAccess;
  readonly waits: AwaitSandbox;
  readonly connections: AgentConnections;
  readonly executions: Executions;
  readonly faults: JudgeFault;
  readonly ids: IdSource;
  readonly terminalIdleMs: number;
}

export interface PtyRequest {
  readonly credential: Credential;
  readonly params: { readonly sandboxId: SandboxId };
  readonly query: {
    readonly ptyId?: string;
    readonly cols?: number;
    readonly rows?: number;
    readonly user?: CommandUser;
  };
  readonly signal: AbortSignal;
}

/** Joins clients to terminals in sandboxes. */
export class OpenPty {
  readonly #deps: OpenPtyDeps;

  constructor(deps: OpenPtyDeps) {
    this.#deps = deps;
  }

  /** Resolves when the terminal is there. @throws AppError */
  async open({ credential, params, query, signal }: PtyRequest): Promise<(client: ClientSocket) => void> {
    const { access, waits, connections, ids, terminalIdleMs } = this.#deps;
    using limit = new Deadline(OPEN_MS, signal);
    const sandbox = requireLive(await waits.settled(await access.getLive(credential, params.sandboxId), limit.signal));
    if (isPending(sandbox) || !sandbox.instance)
      throw busy('The sandbox is still being created; try again.', undefined);
    const { ptyId = ids.next('pty_'), cols: columns = 80, rows = 24, user = 'user' } = query;
    const fresh = query.ptyId === undefined ? { columns, rows, user, idleMs: terminalIdleMs } : undefined;
    try {
      const agent = await connections.get(sandbox.instance, limit.signal);
      const terminal = await agent.commands.openTerminal(ptyId, fresh, limit.signal);
      return (client) => this.#join(sandbox, ptyId, terminal, client);
    } catch (error) {
      if (error instanceof AgentFault && error.kind === 'not_found') throw notFound('terminal', ptyId);
      if (error instanceof AgentFault && error.kind === 'busy') throw busy(fresh ? TOO_MANY : TOO_WATCHED, error);
      throw await this.#deps.faults.judge(sandbox, error);
    }
  }

  /** Until one of the two ends. The sandbox is in use as long as somebody watches. */
  #join(sandbox: SandboxRecord, ptyId: string, terminal: Duplex, client: ClientSocket): void {
    const execution = this.#deps.executions.begin(sandbox.id, undefined, () => client.close());
    terminal.on('error', () => terminal.destroy());
    terminal.once('close', () => client.close());
    client.onClose(() => {
      execution[Symbol.dispose]();
      terminal.destroy();
    });
    client.send(JSON.stringify({ type: 'ready', ptyId }));
    show(terminal, client);
    client.onMessage((message) => {
      if (typeof message !== 'string') write(terminal, 'I', message);
      else control(terminal, message);
      if (terminal.writableLength > MAX_TYPED_BYTES) client.close();
    });
  }
}

function show(terminal: Duplex, client: ClientSocket): void {
  let unsent = 0;
  const sent = () => {
    unsent -= 1;
    if (unsent < MAX_UNSENT) terminal.resume();
  };
  const frames = new ByteFrames((type, body) => {
    if (type === 'X') client.send(JSON.stringify({ type: 'exit', exitCode: Number(body.toString()) & 255 }));
    if (type !== 'O') return;
    unsent += 1;
    if (unsent >= MAX_UNSENT) terminal.pause();
    // A copy: what was handed in is only valid now.
    client.send(Buffer.from(body), sent);
  });
  terminal.on('data', (chunk: Buffer) => {
    try {
      frames.push(chunk);
    } catch {
      terminal.destroy();
    }
  });
}

/** What is no control message is not heeded. */
function control(terminal: Duplex, text: string): void {
  let message: { type?: unknown; cols?: unknown; rows?: unknown };
  try {
    message = Object(JSON.parse(text));
  } catch {
    return;
  }
  const { type, cols, rows } = message;
  if (type === 'resize' && isSize(cols) && isSize(rows)) write(terminal, 'R', Buffer.from(`${cols} ${rows}`));
}

function isSize(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 1000;
}

function write(terminal: Duplex, type: 'I' | 'R', body: Buffer): void {
  for (const part of encodeByteFrame(type, body)) terminal.write(part);
}

function busy(message: string, cause: unknown): AppError {
  return new AppError('unavailable', message, { cause, retryAfterSeconds: 1 });
}
