import { once } from 'node:events';
import { chmodSync, chownSync, renameSync, statSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { runPaths } from '@cloche/layout';
import type { TestService } from './service.ts';

/** Head of a connection for runs. */
const RUNS = 'GET /runs ';
/** An agent ends the runs of a server that is silent for several times as long. */
const SPEAK_MS = 1_000;
const LINE_FEED = 0x0a;

/**
 * Replaces the socket of a sandbox's agent and forwards the connections of servers. It hides from the agent that a
 * server has died or was stopped: it keeps the connections open, and sends empty lines on those for runs, as servers
 * do.
 */
export class AgentRelay {
  readonly #path: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #closed: Promise<void> | undefined;

  private constructor(path: string) {
    this.#path = path;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#carry(client));
  }

  static async open({ runDir, instanceKey }: TestService, sandboxId: string): Promise<AgentRelay> {
    const relay = new AgentRelay(join(runPaths(runDir).instancesDir, instanceKey(sandboxId), 'agent.sock'));
    await relay.#listen();
    return relay;
  }

  get #moved(): string {
    return `${this.#path}.moved`;
  }

  async #listen(): Promise<void> {
    const { uid, gid, mode } = statSync(this.#path);
    renameSync(this.#path, this.#moved);
    this.#server.listen(this.#path);
    await once(this.#server, 'listening');
    chownSync(this.#path, uid, gid);
    chmodSync(this.#path, mode);
  }

  #carry(client: Socket): void {
    const agent = connect(this.#moved);
    for (const socket of [client, agent]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => this.#sockets.delete(socket));
    }
    agent.on('data', (chunk) => client.write(chunk)).once('close', () => client.destroy());
    let isWhole = false;
    client.on('data', (chunk) => {
      agent.write(chunk);
      isWhole = chunk.at(-1) === LINE_FEED;
    });
    client.once('data', (head) => {
      if (!head.toString('latin1').startsWith(RUNS)) return;
      const timer = setInterval(() => isWhole && agent.write('\n'), SPEAK_MS);
      agent.once('close', () => clearInterval(timer));
    });
  }

  /** Closes every connection, and gives the agent its socket back. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
    renameSync(this.#moved, this.#path);
  }
}
