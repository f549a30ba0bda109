import type { Server, Socket } from 'node:net';
import { KeyCounts } from '@cloche/node-support';
import { networkOf } from '../base/network-of.ts';

/**
 * Most connections in all. Each takes a file descriptor and some kilobytes; the remaining descriptors serve connections
 * to sandboxes.
 */
const CONNECTIONS = 8192;
/**
 * Most connections from one address, so that none takes all. An IPv6 address counts as its /64, which one host has
 * whole. Local addresses, Unix sockets and trusted proxies are
 * exempt, because a proxy speaks for many clients.
 */
const PER_ADDRESS = 2048;
const OWN_ADDRESS = /^(::1|(::ffff:)?127\.|$)/;

export interface ConnectionLimits {
  readonly inAll?: number;
  readonly perAddress?: number;
  /** Whether an address has no limit of its own. Default: an address of this host. */
  readonly isExempt?: (address: string) => boolean;
}

/** Returns whether an address is one of this host, or that of a Unix socket. */
export function isOwnAddress(address: string): boolean {
  return OWN_ADDRESS.test(address);
}

/** Closes connections beyond the limits when they arrive, before authentication. */
export function limitConnections(server: Server, limits: ConnectionLimits = {}): void {
  const { inAll = CONNECTIONS, perAddress = PER_ADDRESS, isExempt = isOwnAddress } = limits;
  const byNetwork = new KeyCounts<string>();
  server.maxConnections = inAll;
  server.prependListener('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    if (isExempt(address)) return;
    const network = networkOf(address);
    if (byNetwork.of(network) >= perAddress) {
      socket.destroy();
      return;
    }
    const counted = byNetwork.add(network);
    socket.once('close', () => counted[Symbol.dispose]());
  });
}
