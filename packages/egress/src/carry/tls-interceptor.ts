import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { LeafContexts } from '../authority/leaf-contexts.ts';
import { type Host, normalizeHost } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';

const HANDSHAKE_TIMEOUT_MS = 10_000;

export interface Interception {
  traffic: Pick<SandboxTraffic, 'address' | 'signatures' | 'adoptHttp2'>;
  /** For whom we stand in when the client names nobody. */
  destination: Host;
  leaves: LeafContexts;
  /** Takes what is inside, and for whom the client takes us. Called while nothing of it has been read yet. */
  onSecure: (socket: TLSSocket, host: Host) => void;
}

/**
 * Speaks TLS to a client in the name of the server that it asks for. Also for hosts that the policy closes, so that the
 * client can be told so inside. Rejects, with the connection closed, when the handshake fails.
 */
export async function interceptTls(
  socket: Socket,
  { traffic, destination, leaves, onSecure }: Interception,
): Promise<void> {
  const secureContext = await leaves.get(destination, traffic);
  if (socket.destroyed) throw new Error('the client disconnected');
  let host = destination;
  const secured = new TLSSocket(socket, {
    isServer: true,
    // Undefined ends the handshake, as is due where the client offers neither.
    ALPNCallback: ({ protocols }) =>
      protocols.includes('h2') && traffic.adoptHttp2(secured) ? 'h2' : protocols.find((one) => one === 'http/1.1'),
    secureContext,
    SNICallback: (name, done) => {
      const asked = normalizeHost(name);
      if (!asked) return done(new Error('an invalid server name'));
      host = asked;
      leaves.get(asked, traffic).then((context) => done(null, context), done);
    },
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const deadline = setTimeout(() => secured.destroy(), HANDSHAKE_TIMEOUT_MS);
  // Node's own servers end a connection on it; one that is made by hand is only told.
  secured.on('_tlsError', () => secured.destroy());
  secured.on('error', () => secured.destroy());
  secured.once('close', () => reject(new Error('the handshake was not finished')));
  // Until then an end is one of the client; later it may have more to be told.
  const onEnd = () => secured.destroy();
  secured.once('end', onEnd);
  secured.once('secure', () => {
    secured.off('end', onEnd);
    // Set by Node's own servers as well; HTTP/2 waits for it.
    Object.assign(secured, { secureConnecting: false });
    onSecure(secured, host);
    resolve();
  });
  try {
    await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
  }
}
