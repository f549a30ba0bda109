/** What the kernel knows of a connection, or does with it, and Node does not offer. */
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
const LINGER_NOT = Buffer.from(Int32Array.of(1, 0).buffer);

export interface Endpoint {
  address: string;
  port: number;
}

/** Where a redirected connection was going. Undefined for one that was not redirected. */
export function originalDestination(socket: Socket): Endpoint | undefined {
  // struct sockaddr_in: family, port and address in network order, padding.
  const value = readOption(socket, SOL_IP, SO_ORIGINAL_DST, 16);
  return value && { address: value.subarray(4, 8).join('.'), port: value.readUInt16BE(2) };
}

/** The user of the process at the other end of a Unix socket, as it was when it connected. */
export function peerUid(socket: Socket): number | undefined {
  // struct ucred: pid, uid, gid.
  return readOption(socket, SOL_SOCKET, SO_PEERCRED, 12)?.readUInt32LE(4);
}

/** Has the connection reset when it is closed, and what was not taken yet thrown away. Nothing for one that is closed. */
export function lingerNot(socket: Socket): void {
  const fd = descriptor(socket);
  if (fd !== undefined) setsockopt(fd, SOL_SOCKET, SO_LINGER, LINGER_NOT, LINGER_NOT.length);
}

/** Fixes what the kernel holds of a connection each way, which it would let grow to several MB. Nothing for one that is closed. */
export function boundBuffers(
  socket: Socket,
  { receiveBytes, sendBytes }: { receiveBytes: number; sendBytes: number },
): void {
  const fd = descriptor(socket);
  if (fd === undefined) return;
  // The kernel doubles each, for its own bookkeeping.
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

/** Node keeps it to itself, and every release so far has it here. */
function descriptor(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { _handle?: { fd?: number } | null };
  return handle?.fd !== undefined && handle.fd >= 0 ? handle.fd : undefined;
}
