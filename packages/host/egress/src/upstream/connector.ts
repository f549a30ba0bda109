import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type SecureContext, connect as tlsConnect } from 'node:tls';
import type { ClosedAddresses } from '@cloche/settings';
import type { Upstream } from '../dns/upstream.ts';
import { type EgressPolicy, permitsAddressOfName } from '../policy/egress-policy.ts';
import { type Host, hostText } from '../policy/host-name.ts';
import { EgressError } from './egress-error.ts';
import { resolveName } from './resolve-name.ts';

const CONNECT_TIMEOUT_MS = 10_000;

export interface ConnectorDeps {
  dnsUpstream: Upstream;
  closed: ClosedAddresses;
  /** Root certificates for checking servers. */
  trust: SecureContext;
  connectTimeoutMs?: number;
}

/** The server for a permitted request. */
export interface Target {
  host: Host;
  port: number;
  isSecure: boolean;
}

/**
 * Opens connections to servers. Resolves the name itself, once, and connects to an address that has been checked. The
 * sandbox's own idea of the address is not used.
 */
export class Connector {
  readonly #deps: ConnectorDeps;

  constructor(deps: ConnectorDeps) {
    this.#deps = deps;
  }

  /** Resolves when the server can be written to. Rejects with an `EgressError`. */
  async connect(target: Target, policy: EgressPolicy, ended: AbortSignal): Promise<Socket> {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(this.#deps.connectTimeoutMs ?? CONNECT_TIMEOUT_MS)]);
    let socket: Socket | undefined;
    try {
      const address = await this.#permittedAddress(target.host, policy, signal);
      socket = listened(connect({ host: address, port: target.port, noDelay: true }));
      await once(socket, 'connect', { signal });
      if (target.isSecure) socket = await this.#secure(socket, target.host, signal);
      return socket;
    } catch (error) {
      socket?.destroy();
      throw asEgressError(error, target);
    }
  }

  async #permittedAddress(host: Host, policy: EgressPolicy, signal: AbortSignal): Promise<string> {
    const { dnsUpstream, closed } = this.#deps;
    const addresses = host.kind === 'ipv4' ? [host.address] : await resolveName(host.name, dnsUpstream, signal);
    const permitted = addresses.find((address) => !closed.isClosed(address) && permitsAddressOfName(policy, address));
    if (permitted === undefined)
      throw new EgressError('denied', `${hostText(host)} has an address that sandboxes may not reach`);
    return permitted;
  }

  async #secure(socket: Socket, host: Host, signal: AbortSignal): Promise<Socket> {
    const secured = listened(
      tlsConnect({
        socket,
        secureContext: this.#deps.trust,
        ALPNProtocols: ['http/1.1'],
        // An IP address is checked against the certificate, but must not be sent as server name.
        ...(host.kind === 'name' ? { servername: host.name } : { host: host.address }),
      }),
    );
    try {
      await once(secured, 'secureConnect', { signal });
    } catch (error) {
      secured.destroy();
      throw error;
    }
    return secured;
  }
}

function asEgressError(error: unknown, target: Target): EgressError {
  if (error instanceof EgressError) return error;
  const where = `${hostText(target.host)}:${target.port}`;
  const { name, code = '', message } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || name === 'AbortError' || code === 'ETIMEDOUT') {
    return new EgressError('timeout', `${where} did not answer in time`, { cause: error });
  }
  if (/CERT|ISSUER|SELF_SIGNED|VERIFY_LEAF|ALTNAME/.test(code)) {
    return new EgressError('untrusted', `${where}: ${message}`, { cause: error });
  }
  return new EgressError('unreachable', `${where}: ${code || message}`, { cause: error });
}

/** Returns the socket with a listener for errors that come before its user has one. */
function listened<S extends Socket>(socket: S): S {
  return socket.on('error', () => socket.destroy());
}
