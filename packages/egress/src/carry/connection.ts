import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Host } from '../policy/host-name.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';

/** A client's connection, or what goes through one that it had made by CONNECT. */
export interface Connection {
  traffic: SandboxTraffic;
  /** The connection that the sandbox opened: this one, or the one that carries it. */
  client: Socket;
  /** Where the client believes to be connected to. Decides where requests go by its port alone. */
  destination: { host: Host; port: number };
  /** Set inside TLS: for whom egress stands in. */
  secureHost?: Host;
  /** How many CONNECTs it goes through. */
  depth: number;
}

export function isSameHost(one: Host, other: Host): boolean {
  return isDeepStrictEqual(one, other);
}
