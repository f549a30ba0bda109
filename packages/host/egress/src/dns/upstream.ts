import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import { orAbort } from '@cloche/node-support';
import { frame, readFrames } from './dns-frames.ts';
import { answersQuery } from './dns-messages.ts';

/** Address of the resolver. */
export interface Upstream {
  address: string;
  port: number;
}

const DNS_PORT = 53;
/** Shorter than the five seconds after which the resolver of a sandbox repeats a query that got no answer. */
const ASK_AGAIN_MS = 1_500;

/** Parses `1.2.3.4`, `1.2.3.4:53`, `::1` or `[::1]:53`. Throws for everything else, including names. */
export function parseUpstream(text: string): Upstream {
  const match = /^\[(?<v6>[^\]]+)\](?::(?<v6Port>\d+))?$|^(?<v4>[\d.]+):(?<v4Port>\d+)$/.exec(text)?.groups;
  const address = match?.v6 ?? match?.v4 ?? text;
  const port = Number(match?.v6Port ?? match?.v4Port ?? DNS_PORT);
  if (isIP(address) === 0 || port < 1 || port > 65_535) throw new Error(`${text} is not the address of a resolver`);
  return { address, port };
}

/** Returns the first resolver in a `resolv.conf`. */
export function firstNameserver(resolvConf: string): Upstream | undefined {
  const address = /^\s*nameserver\s+(\S+)/m.exec(resolvConf)?.[1];
  return address === undefined ? undefined : { address, port: DNS_PORT };
}

/**
 * Sends a query by UDP, and repeats it while no answer comes, because a datagram can get lost. Uses a new port, so that
 * an attacker cannot guess where to send a forged answer.
 */
export async function askByDatagram(query: Buffer, upstream: Upstream, signal: AbortSignal): Promise<Buffer> {
  const socket = createSocket({ type: isIP(upstream.address) === 6 ? 'udp6' : 'udp4', signal });
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  socket.on('error', reject);
  let again: NodeJS.Timeout | undefined;
  // Connected, so that the kernel only accepts datagrams from the resolver and reports a refusal.
  socket.connect(upstream.port, upstream.address, (unreachable?: Error) => {
    if (unreachable) return reject(unreachable);
    if (signal.aborted) return;
    const ask = () => socket.send(query, (error) => error && reject(error));
    ask();
    again = setInterval(ask, ASK_AGAIN_MS);
  });
  socket.on('message', (answer) => {
    if (answersQuery(answer, query)) resolve(answer);
  });
  try {
    return await orAbort(promise, signal);
  } finally {
    clearInterval(again);
    if (!signal.aborted) socket.close();
  }
}

/** Sends a query by TCP, for answers that do not fit into a datagram. */
export async function askByConnection(query: Buffer, upstream: Upstream, signal: AbortSignal): Promise<Buffer> {
  const socket = connect({ host: upstream.address, port: upstream.port, signal });
  // `once` and the loop report an error, each for its time.
  socket.on('error', () => undefined);
  try {
    await once(socket, 'connect');
    socket.write(frame(query));
    for await (const answer of readFrames(socket)) {
      if (answersQuery(answer, query)) return Buffer.from(answer);
    }
    throw new Error('the resolver closed the connection without an answer');
  } finally {
    socket.destroy();
  }
}
