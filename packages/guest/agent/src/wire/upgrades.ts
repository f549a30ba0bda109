import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { AgentError } from '../base/agent-error.ts';

/** Takes over a connection. `head` has the bytes that arrived with the request. An error is sent as the response. */
export type Upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>;

/** Passes connections to the protocols that requests upgrade to. */
export function serveUpgrades(server: Server, protocols: Readonly<Record<string, Upgrade>>): void {
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy());
    const upgrade = protocols[request.headers.upgrade ?? ''] ?? unknownProtocol;
    upgrade(request, socket, head).catch((error: unknown) => refuse(socket, error));
  });
}

/** Accepts an upgrade. */
export function switchProtocols(socket: Duplex, protocol: string, ...fields: readonly string[]): void {
  const lines = ['HTTP/1.1 101 Switching Protocols', 'connection: upgrade', `upgrade: ${protocol}`, ...fields];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
}

async function unknownProtocol({ url, headers }: IncomingMessage): Promise<void> {
  throw new AgentError('not_found', `The agent has no ${headers.upgrade} at ${url}.`);
}

function refuse(socket: Duplex, error: unknown): void {
  const known = error instanceof AgentError ? error : new AgentError('internal', String(error));
  const text = JSON.stringify({ error: { code: known.code, message: known.message } });
  const head = [
    `HTTP/1.1 ${known.status} Refused`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
}
