import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { endPacing } from '@cloche/node-support';
import type { LeafContexts } from '../authority/leaf-contexts.ts';
import { type Host, normalizeHost } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';

const HANDSHAKE_TIMEOUT_MS = 10_000;

export interface Interception {
  traffic: Pick<SandboxTraffic, 'address' | 'signatures' | 'adoptHttp2'>;
  /** The host to impersonate if the client sends no server name. */
  destination: Host;
  leaves: LeafContexts;
  /** Receives the decrypted connection and the host that the client asked for. Called before anything was read. */
  onSecure: (socket: TLSSocket, host: Host) => void;
}

/**
 * Does the TLS handshake with a client in the name of the requested server. Does so for denied hosts too, so that the
 * client gets an HTTP error inside TLS. If the handshake fails, closes the connection and rejects.
 */
export async function interceptTls(
  socket: Socket,
  { traffic, destination, leaves, onSecure }: Interception,
): Promise<void> {
  const secureContext = await leaves.get(destination, traffic);
  if (socket.destroyed) throw new Error('the client disconnected');
  // TLS reads what the socket has received, and then from the socket's native handle.
  endPacing(socket);
  let host = destination;
  const secured = new TLSSocket(socket, {
    isServer: true,
    // Undefined ends the handshake, which is right if the client offers neither protocol.
    ALPNCallback: ({ protocols }) =>
      protocols.includes('h2') && traffic.adoptHttp2(secured) ? 'h2' : protocols.find((one) => one === 'http/1.1'),
    secureContext,
    SNICallback: (name, done) => {
      const asked = normalizeHost(name);
      if (!asked) return done(new Error('the client sent an invalid server name'));
      host = asked;
      leaves.get(asked, traffic).then((context) => done(null, context), done);
    },
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const deadline = setTimeout(() => secured.destroy(), HANDSHAKE_TIMEOUT_MS);
  // Node's TLS servers close the connection on this event. A TLSSocket that is created directly does not.
  secured.on('_tlsError', () => secured.destroy());
  secured.on('error', () => secured.destroy());
  secured.once('close', () => reject(new Error('the handshake was not finished')));
  // An end during the handshake is final. After it, the client may still wait for a response.
  const onEnd = () => secured.destroy();
  secured.once('end', onEnd);
  secured.once('secure', () => {
    secured.off('end', onEnd);
    // Node's TLS servers set this too. HTTP/2 waits for it.
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
