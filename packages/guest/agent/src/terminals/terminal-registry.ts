import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { MAX_TERMINALS, TERMINAL_PROTOCOL } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { Gate } from '../base/gate.ts';
import { ensureWorkspace } from '../base/workspace-folder.ts';
import { supervisorOptions } from '../commands/command-registry.ts';
import type { Supervisors } from '../commands/supervisors.ts';
import type { AgentConfig } from '../config.ts';
import { switchProtocols } from '../wire/upgrades.ts';
import { Terminal } from './terminal.ts';

/** Terminal type that common terminal emulators support. */
const TERM = 'xterm-256color';
/** Names that can be part of a shell command without quoting. */
const PLACE = /^[0-9a-z]{1,20}$/;

/** The terminals of this sandbox. */
export class TerminalRegistry {
  readonly #config: AgentConfig;
  readonly #clientEnv: () => Readonly<Record<string, string>>;
  readonly #supervisors: Supervisors;
  readonly #gate: Gate;
  readonly #terminals = new Map<string, Terminal>();

  /** @param gate ends the connections of clients when it closes, and holds the idle times of terminals */
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
  }

  /** Whether a client is at a terminal. */
  get isBusy(): boolean {
    return [...this.#terminals.values()].some((terminal) => terminal.hasClients);
  }

  /** Takes over the connection of a request, as `agent-protocol/terminals.ts` describes. */
  readonly join = async ({ url }: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const { pathname, searchParams } = new URL(url ?? '', 'http://agent');
    const id = decodeURIComponent(/^\/terminals\/([^/]+)$/.exec(pathname)?.[1] ?? '');
    const terminal = searchParams.has('columns') ? this.#open(id, searchParams) : this.#terminals.get(id);
    if (terminal === undefined) throw new AgentError('not_found', `There is no terminal ${id}.`);
    if (terminal.isFull) throw new AgentError('queue_full', 'The terminal has its maximum number of clients.');
    switchProtocols(socket, TERMINAL_PROTOCOL);
    if (head.length > 0) socket.unshift(head);
    terminal.join(socket);
  };

  async killAll(): Promise<void> {
    await Promise.all([...this.#terminals.values()].map((terminal) => terminal.kill()));
  }

  #open(id: string, query: URLSearchParams): Terminal {
    if (this.#terminals.size >= MAX_TERMINALS) {
      throw new AgentError('queue_full', `${MAX_TERMINALS} terminals are already open.`);
    }
    const user = query.get('user') === 'root' ? 'root' : 'user';
    const size = { columns: wholeNumber(query, 'columns', 9999), rows: wholeNumber(query, 'rows', 9999) };
    const { shell, workspace } = this.#config;
    ensureWorkspace(this.#config);
    const env = { TERM, ...promptOf(query.get('place') ?? '', this.#clientEnv()) };
    const request = { argv: [shell, '-l'], cwd: workspace, env, user, stdinOpen: true } as const;
    const spec = {
      ...supervisorOptions(this.#config, this.#clientEnv(), { ...request, argv: [...request.argv] }),
      terminal: size,
    };
    const idleMs = wholeNumber(query, 'idleMs', 2 ** 31 - 1);
    const options = { spec, idleMs, gate: this.#gate };
    const terminal = new Terminal(this.#supervisors, options, () => this.#terminals.delete(id));
    this.#terminals.set(id, terminal);
    return terminal;
  }
}

/**
 * Returns the variable that makes bash show this name in place of the host name in its prompt. All sandboxes have the
 * same host name, because a pooled instance starts before its sandbox exists, and gVisor cannot change a host name
 * later.
 */
function promptOf(place: string, { PROMPT_COMMAND }: Readonly<Record<string, string>>): Record<string, string> {
  if (PROMPT_COMMAND !== undefined || !PLACE.test(place)) return {};
  return { PROMPT_COMMAND: `PS1=\${PS1//\\\\h/${place}}` };
}

function wholeNumber(query: URLSearchParams, name: string, maximum: number): number {
  const value = Number(query.get(name) ?? 0);
  if (!Number.isInteger(value) || value < 1 || value > maximum) {
    throw new AgentError('bad_request', `${name} must be a whole number from 1 to ${maximum}.`);
  }
  return value;
}
