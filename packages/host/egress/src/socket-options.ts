/** Socket options of the kernel that Node does not offer. */
import type { Socket } from 'node:net';
import koffi from 'koffi';

const libc = koffi.load('libc.so.6');
const getsockopt = libc.func(
  'int getsockopt(int fd, int level, int option, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
);
const setsockopt = libc.func('int setsockopt(int fd, int level, int option, const uint8_t *value, uint32_t length)');

const SOL_IP = 0;
const SO_ORIGINAL_DST = 80;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_RCVBUF = 8;
const SO_LINGER = 13;
const SO_PEERCRED = 17;
/** struct linger: on, for no second. */
const NO_LINGER = Buffer.from(Int32Array.of(1, 0).buffer);

export interface Endpoint {
  address: string;
  port: number;
}

/** Returns the original destination of a redirected connection. Undefined for one that was not redirected. */
export function originalDestination(socket: Socket): Endpoint | undefined {
  // struct sockaddr_in: family, port and address in network order, padding.
  const value = readOption(socket, SOL_IP, SO_ORIGINAL_DST, 16);
  return value && { address: value.subarray(4, 8).join('.'), port: value.readUInt16BE(2) };
}

/** Returns the user of the process at the other end of a Unix socket, as of its connection. */
export function peerUid(socket: Socket): number | undefined {
  // struct ucred: pid, uid, gid.
  return readOption(socket, SOL_SOCKET, SO_PEERCRED, 12)?.readUInt32LE(4);
}

/** Makes closing the connection reset it and drop unsent data. Does nothing if it is closed. */
export function resetOnClose(socket: Socket): void {
  const fd = descriptor(socket);
  if (fd !== undefined) setsockopt(fd, SOL_SOCKET, SO_LINGER, NO_LINGER, NO_LINGER.length);
}

/**
 * Fixes the kernel's buffers of a connection, which could otherwise grow to several MB. Does nothing if it is closed.
 */
export function boundBuffers(
  socket: Socket,
  { receiveBytes, sendBytes }: { receiveBytes: number; sendBytes: number },
): void {
  const fd = descriptor(socket);
  if (fd === undefined) return;
  // The kernel doubles each value for its own bookkeeping.
  for (const [option, bytes] of [
    [SO_RCVBUF, receiveBytes / 2],
    [SO_SNDBUF, sendBytes / 2],
  ] as const) {
    const value = Buffer.from(Int32Array.of(bytes).buffer);
    setsockopt(fd, SOL_SOCKET, option, value, value.length);
  }
}

function readOption(socket: Socket, level: number, option: number, bytes: number): Buffer | undefined {
  const fd = descriptor(socket);
  if (fd === undefined) return undefined;
  const value = Buffer.alloc(bytes);
  return getsockopt(fd, level, option, value, [bytes]) < 0 ? undefined : value;
}

/** Returns the descriptor from an internal property of Node, present in all releases so far. */
function descriptor(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { _handle?: { fd?: number } | null };
  return handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : undefined;
}
