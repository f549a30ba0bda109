import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { MAX_PORT_TUNNELS, PORT_TUNNEL_PROTOCOL } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { switchProtocols } from '../wire/upgrades.ts';

/** IPv6 is off in sandboxes. Programs that listen on all addresses can be reached here too. */
const LOOPBACK = '127.0.0.1';

let open = 0;

/** Connects a request for `GET /ports/:port` to that port of the loopback. When one side ends, the other ends too. */
export async function openPortTunnel({ url }: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
  const port = portOf(url ?? '');
  if (open >= MAX_PORT_TUNNELS) throw new AgentError('queue_full', `${MAX_PORT_TUNNELS} tunnels are open.`);
  open += 1;
  const inner = connect({ host: LOOPBACK, port, allowHalfOpen: true, noDelay: true });
  inner.on('error', () => inner.destroy());
  inner.once('close', () => {
    open -= 1;
  });
  // If the caller disconnects meanwhile, the attempt is aborted.
  socket.once('close', () => inner.destroy());
  await connected(inner, port);
  switchProtocols(socket, PORT_TUNNEL_PROTOCOL);
  if (head.length > 0) inner.write(head);
  const isOver = () => undefined;
  pipeline(socket, inner, isOver);
  pipeline(inner, socket, isOver);
}

function portOf(url: string): number {
  const port = Number(/^\/ports\/(\d{1,5})$/.exec(url)?.[1]);
  if (!(port >= 1 && port <= 65_535)) throw new AgentError('bad_request', 'A port is a number from 1 to 65535.');
  return port;
}

async function connected(inner: Socket, port: number): Promise<void> {
  try {
    await once(inner, 'connect');
  } catch {
    inner.destroy();
    throw new AgentError('port_closed', `No program listens on port ${port}.`);
  }
}
