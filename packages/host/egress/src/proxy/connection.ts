import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Host } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';

/** A client's connection, or a tunnel that the client has made through one with CONNECT. */
export interface Connection {
  traffic: SandboxTraffic;
  /** The connection that the sandbox opened: this one, or the one that this tunnel runs through. */
  client: Socket;
  /**
   * Destination of the connection, as the client sees it. An HTTP request goes to the host that it names, at this
   * port.
   */
  destination: { host: Host; port: number };
  /** Inside TLS: the server that egress impersonates. */
  secureHost?: Host;
  /** Number of CONNECT tunnels around this connection. */
  depth: number;
}

export function isSameHost(one: Host, other: Host): boolean {
  return isDeepStrictEqual(one, other);
}
