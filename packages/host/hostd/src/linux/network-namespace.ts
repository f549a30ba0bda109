import { closeSync, openSync } from 'node:fs';
import { boundSocket } from './bound-socket.ts';
import { bindLibc, checked } from './libc.ts';

const setnsCall = bindLibc('int setns(int fd, int type)');
const unshareCall = bindLibc('int unshare(int flags)');
const socketCall = bindLibc('int socket(int domain, int type, int protocol)');

const CLONE_NEWNET = 0x4000_0000;
const AF_INET = 2;
const SOCKET_TYPES = { connection: 1, datagram: 2 } as const;
const SOCK_CLOEXEC_NONBLOCK = 0o2000000 | 0o4000;

/**
 * Runs `act` in a network namespace. A socket stays in the namespace where it was opened, so this thread enters it for
 * one call only.
 */
export function inNetworkNamespace<T>(fd: number, act: () => T): T {
  return andReturn(() => {
    checked(setnsCall(fd, CLONE_NEWNET), 'setns', 'network');
    return act();
  });
}

/**
 * Creates a network namespace without a process, and returns its descriptor. The kernel removes the namespace and its
 * links when the descriptor is closed, also by the death of this process.
 */
export function createNetworkNamespace(): number {
  return andReturn(() => {
    checked(unshareCall(CLONE_NEWNET), 'unshare', 'network');
    return openSync('/proc/thread-self/ns/net', 'r');
  });
}

/** Runs `act`, which may leave the network namespace of this thread, and returns there. */
function andReturn<T>(act: () => T): T {
  const own = openSync('/proc/thread-self/ns/net', 'r');
  try {
    try {
      return act();
    } finally {
      // SECURITY: a root daemon left in a guest's network would trust that network, so it ends instead.
      if (setnsCall(own, CLONE_NEWNET) < 0) process.abort();
    }
  } finally {
    closeSync(own);
  }
}

/**
 * Opens an IPv4 socket in a network namespace, for `node:net` or `node:dgram`, and returns its descriptor.
 *
 * @param port bound on every address; by default the kernel chooses a port when the socket sends
 */
export function openInternetSocket(namespace: number, type: keyof typeof SOCKET_TYPES, port?: number): number {
  const open = () => socketCall(AF_INET, SOCKET_TYPES[type] | SOCK_CLOEXEC_NONBLOCK, 0);
  const fd = inNetworkNamespace(namespace, () => checked(open(), 'socket', type));
  if (port === undefined) return fd;
  const address = Buffer.alloc(16);
  address.writeUInt16LE(AF_INET, 0);
  address.writeUInt16BE(port, 2);
  return boundSocket(fd, address, `port ${port}`);
}
