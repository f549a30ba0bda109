import type { Duplex } from 'node:stream';
import { type CommandUser, LIMITS, PAUSED_CLOSE_CODE, type SandboxId } from '@cloche/contract';
import { ByteFrames, encodeByteFrame } from '@cloche/protocol';
import { AgentError } from '@cloche/runtime';
import { AGENT_LIMITS } from '@cloche/runtime/agent-limits';
import { AppError } from '../../platform/base/app-error.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import type { ClientSocket, SocketSession } from '../../platform/http/route.ts';
import { ownError } from '../sandbox-records/agent-failures.ts';
import type { Executions } from '../sandbox-records/executions.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxUse } from '../sandboxes/use/sandbox-use.ts';
import { terminalSize } from './terminal-size.ts';

/** Maximum number of unsent output messages to a client before reading from the terminal pauses. */
const MAX_UNSENT = 64;
/** Maximum bytes of input that the shell has not read; a client that exceeds it is disconnected. */
const MAX_TYPED_BYTES = 1024 * 1024;
/** Least time between two notes that bytes have passed. */
const TOUCH_MS = 500;

export interface OpenPtyDeps {
  readonly sandboxUse: SandboxUse;
  readonly executions: Executions;
  readonly ids: IdSource;
  readonly terminalIdleMs: number;
}

/** The terminal that a client wants. */
export interface PtyQuery {
  readonly ptyId?: string;
  readonly cols?: number;
  readonly rows?: number;
  readonly user?: CommandUser;
}

/** Connects clients to terminals in sandboxes. */
export class OpenPty {
  readonly #deps: OpenPtyDeps;

  constructor(deps: OpenPtyDeps) {
    this.#deps = deps;
  }

  /** Resolves when the terminal is open. @throws AppError */
  async open({ credential, signal, audit }: Call, sandboxId: SandboxId, query: PtyQuery): Promise<SocketSession> {
    const { sandboxUse, ids, terminalIdleMs } = this.#deps;
    const { ptyId = ids.next('pty_'), user = 'user' } = query;
    const size = terminalSize(query);
    const place = placeName(sandboxId);
    const fresh = query.ptyId === undefined ? { ...size, user, idleMs: terminalIdleMs, place } : undefined;
    const announce = (sandbox: SandboxRecord) => audit?.announce(sandbox);
    const bounds = { signal, actMs: AGENT_LIMITS.startMs, announce };
    return sandboxUse.with({ credential, sandboxId }, bounds, async ({ commands }, sandbox, limit) => {
      const terminal = await commands.openTerminal(ptyId, fresh, limit).catch((error: unknown) => {
        throw ownError(fresh ? 'newTerminal' : 'openTerminal', error, ptyId) ?? error;
      });
      return {
        serve: (client) => this.#join(sandbox, ptyId, terminal, client),
        [Symbol.dispose]: () => terminal.destroy(),
      };
    });
  }

  /** Connects the client and the terminal until either closes. The sandbox counts as `running` meanwhile. */
  #join(sandbox: SandboxRecord, ptyId: string, terminal: Duplex, client: ClientSocket): void {
    const { executions } = this.#deps;
    const execution = executions.begin(sandbox.id, undefined, () => client.close(), { isUse: false });
    const touch = atMostEvery(TOUCH_MS, () => executions.touch(sandbox.id));
    terminal.on('data', touch);
    let isOver = false;
    terminal.once('close', () => {
      if (isOver) client.close();
      else this.#closeBroken(sandbox, client).catch(() => client.close());
    });
    client.onClose(() => {
      isOver = true;
      execution[Symbol.dispose]();
      terminal.destroy();
    });
    client.send(JSON.stringify({ type: 'ready', ptyId }));
    show(terminal, client, () => {
      isOver = true;
    });
    client.onMessage((message) => {
      touch();
      if (typeof message !== 'string') write(terminal, 'I', message);
      else control(terminal, message);
      if (terminal.writableLength > MAX_TYPED_BYTES) client.close();
    });
  }

  /** Closes the connection to a client whose terminal has ended without an exit code. */
  async #closeBroken(sandbox: SandboxRecord, client: ClientSocket): Promise<void> {
    const broken = new AgentError('gone', 'the connection to a terminal ended');
    const reason = await this.#deps.sandboxUse.explain(sandbox, broken);
    const isPaused = reason instanceof AppError && reason.is('sandbox_paused');
    client.close(isPaused ? { code: PAUSED_CLOSE_CODE, text: reason.code } : undefined);
  }
}

/** Returns what the prompt calls the sandbox: the beginning of its id, which people type in place of the id. */
function placeName(sandboxId: SandboxId): string {
  return sandboxId.slice('sbx_'.length, 'sbx_'.length + 4);
}

/** Returns a function that calls `act` unless it did so within that time. */
function atMostEvery(ms: number, act: () => void): () => void {
  let calledAt = Number.NEGATIVE_INFINITY;
  return () => {
    const now = performance.now();
    if (now - calledAt < ms) return;
    calledAt = now;
    act();
  };
}

/** Passes on what the terminal shows. Calls `onExit` when its shell has exited. */
function show(terminal: Duplex, client: ClientSocket, onExit: () => void): void {
  let unsent = 0;
  const sent = () => {
    unsent -= 1;
    if (unsent < MAX_UNSENT) terminal.resume();
  };
  const frames = new ByteFrames((type, body) => {
    if (type === 'X') {
      onExit();
      client.send(JSON.stringify({ type: 'exit', exitCode: Number(body.toString()) & 255 }));
    }
    if (type !== 'O') return;
    unsent += 1;
    if (unsent >= MAX_UNSENT) terminal.pause();
    // A copy, because `body` is valid only during this call.
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

/** Handles a control message. Ignores messages that are invalid. */
function control(terminal: Duplex, text: string): void {
  let message: { type?: unknown; cols?: unknown; rows?: unknown };
  try {
    message = Object(JSON.parse(text));
  } catch {
    return;
  }
  const { type, cols, rows } = message;
  if (type !== 'resize' || !isSide(cols) || !isSide(rows)) return;
  const size = terminalSize({ cols, rows });
  write(terminal, 'R', Buffer.from(`${size.columns} ${size.rows}`));
}

function isSide(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= LIMITS.terminalNamedSide;
}

function write(terminal: Duplex, type: 'I' | 'R', body: Buffer): void {
  for (const part of encodeByteFrame(type, body)) terminal.write(part);
}
