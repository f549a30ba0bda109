import { once } from 'node:events';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { LeafContexts } from '../authority/leaf-contexts.ts';
import { type Host, normalizeHost } from '../policy/host-name.ts';

const HANDSHAKE_TIMEOUT_MS = 10_000;

export interface Intercepted {
  socket: TLSSocket;
  /** For whom the client takes us. */
  host: Host;
}

/**
 * Speaks TLS to a client in the name of the server that it asks for, or of `destination` when it names none. Also for
 * hosts that the policy closes, so that the client can be told so inside. Rejects, with the connection closed, when the
 * handshake fails.
 */
export async function interceptTls(socket: Socket, destination: Host, leaves: LeafContexts): Promise<Intercepted> {
  let host = destination;
  const ofDestination = await leaves.get(destination);
  if (socket.destroyed) throw new Error('the client went away');
  const secured = new TLSSocket(socket, {
    isServer: true,
    ALPNProtocols: ['h2', 'http/1.1'],
    secureContext: ofDestination,
    SNICallback: (name, done) => {
      const asked = normalizeHost(name);
      if (!asked) return done(new Error('a server name that is none'));
      host = asked;
      leaves.get(asked).then((context) => done(null, context), done);
    },
  });
  // Node's own servers end a connection on it; one that is made by hand is only told.
  secured.on('_tlsError', () => secured.destroy());
  secured.on('error', () => secured.destroy());
  const signal = AbortSignal.timeout(HANDSHAKE_TIMEOUT_MS);
  try {
    await Promise.race([once(secured, 'secure', { signal }), closed(secured)]);
  } catch (error) {
    secured.destroy();
    socket.destroy();
    throw error;
  }
  return { socket: secured, host };
}

async function closed(socket: TLSSocket): Promise<never> {
  await once(socket, 'close');
  throw new Error('the handshake was not finished');
}
