/** Deletion of the kernel's connection tracking entries, through ctnetlink. */
import { closeSync } from 'node:fs';
import { promisify } from 'node:util';
import { bindLibc, checked } from '../linux/libc.ts';
import { attribute, ipv4, NESTED, u32 } from '../linux/netlink.ts';

const socketCall = bindLibc('int socket(int domain, int type, int protocol)');
const sendCall = bindLibc('long send(int fd, void *message, size_t length, int flags)');
const recvCall = bindLibc('long recv(int fd, _Out_ uint8_t *buffer, size_t length, int flags)');
/** Run on another thread: the kernel walks its whole table within these calls (3 ms for 262,144 buckets). */
const sendElsewhere = promisify(sendCall.async) as (...args: unknown[]) => Promise<number>;
const recvElsewhere = promisify(recvCall.async) as (...args: unknown[]) => Promise<number>;

const AF_INET = 2;
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_NETFILTER = 12;
const GET_FLOWS = (1 << 8) | 1;
const DELETE_FLOW = (1 << 8) | 2;
const REQUEST = 1;
const DUMP = 0x300;
/** Sequence numbers; answers repeat them. */
const LIST = 1;
const DELETE = 2;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const HEADER_BYTES = 16;
/** The header `nfgenmsg`: family, version, resource. */
const FAMILY = Buffer.from([AF_INET, 0, 0, 0]);
const ANSWER_BYTES = 32 * 1024;

const TYPE_MASK = 0x3fff;
const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_IP = 1;
const CTA_IP_V4_SRC = 1;
const CTA_IP_V4_DST = 2;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_FILTER = 25;
const CTA_FILTER_ORIG_FLAGS = 1;
const CTA_FILTER_REPLY_FLAGS = 2;

/** Passes before giving up. The first one deletes; the second finds nothing unless the table was resized meanwhile. */
const MAX_PASSES = 4;

/** Deletes every entry that has the address as its original source or destination. Idempotent. */
export async function deleteFlows(address: string): Promise<void> {
  const socket = checked(socketCall(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_NETFILTER), 'socket', 'NETLINK_NETFILTER');
  try {
    for (const side of [CTA_IP_V4_SRC, CTA_IP_V4_DST]) await deleteBySide(socket, side, ipv4(address));
  } finally {
    closeSync(socket);
  }
}

async function deleteBySide(socket: number, side: number, address: Buffer): Promise<void> {
  for (let pass = 0; pass < MAX_PASSES; pass += 1) {
    const identities = await listIdentities(socket, side, address);
    if (identities.length === 0) return;
    for (const identity of identities) {
      const message = netlinkMessage({ type: DELETE_FLOW, flags: REQUEST, sequence: DELETE }, identity);
      checked(sendCall(socket, message, message.length, 0), 'send', 'delete a tracked flow');
    }
  }
  throw new Error(`tracked flows of ${address.join('.')} come back`);
}

/** Returns each entry's identity for the kernel: its tuple, its number, and its zone if it has one. */
async function listIdentities(socket: number, side: number, address: Buffer): Promise<Buffer[]> {
  const request = netlinkMessage({ type: GET_FLOWS, flags: REQUEST | DUMP, sequence: LIST }, filterBy(side, address));
  if ((await sendElsewhere(socket, request, request.length, 0)) < 0) throw new Error('the kernel lists no flows');
  const identities: Buffer[] = [];
  const answer = Buffer.alloc(ANSWER_BYTES);
  for (;;) {
    const length = await recvElsewhere(socket, answer, answer.length, 0);
    if (length < HEADER_BYTES) throw new Error('the list of tracked flows is cut short');
    for (const { type, sequence, body } of messages(answer.subarray(0, length))) {
      // The kernel answers deletions only for entries that had already ended.
      if (sequence === DELETE) continue;
      if (type === NLMSG_DONE) return identities;
      if (type === NLMSG_ERROR) throw new Error('the kernel refuses to list flows');
      const identity = identityOf(body, side, address);
      if (identity) identities.push(identity);
    }
  }
}

function filterBy(side: number, address: Buffer): Buffer {
  const tuple = attribute(CTA_TUPLE_ORIG | NESTED, attribute(CTA_TUPLE_IP | NESTED, attribute(side, address)));
  const flags = [attribute(CTA_FILTER_ORIG_FLAGS, u32(side)), attribute(CTA_FILTER_REPLY_FLAGS, u32(0))];
  return Buffer.concat([tuple, attribute(CTA_FILTER | NESTED, Buffer.concat(flags))]);
}

/**
 * Returns undefined for an entry of another address: kernels before Linux 5.8 ignore the filter.
 * SECURITY: a delete request without a tuple deletes every entry of the host (e2e/security/connections.test.ts).
 */
function identityOf(body: Buffer, side: number, address: Buffer): Buffer | undefined {
  const parts = attributes(body.subarray(FAMILY.length));
  const tuple = parts.get(CTA_TUPLE_ORIG);
  const addresses = tuple && attributes(tuple).get(CTA_TUPLE_IP);
  if (!tuple || !addresses || !attributes(addresses).get(side)?.equals(address)) return undefined;
  const identity = [attribute(CTA_TUPLE_ORIG | NESTED, tuple)];
  for (const type of [CTA_ID, CTA_ZONE]) {
    const value = parts.get(type);
    if (value) identity.push(attribute(type, value));
  }
  return Buffer.concat(identity);
}

interface Header {
  type: number;
  flags: number;
  sequence: number;
}

function netlinkMessage({ type, flags, sequence }: Header, body: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32LE(HEADER_BYTES + FAMILY.length + body.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(flags, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, FAMILY, body]);
}

function* messages(bytes: Buffer): Generator<{ type: number; sequence: number; body: Buffer }> {
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    const body = bytes.subarray(at + HEADER_BYTES, at + length);
    yield { type: bytes.readUInt16LE(at + 4), sequence: bytes.readUInt32LE(at + 8), body };
    at += Math.max(HEADER_BYTES, (length + 3) & ~3);
  }
}

function attributes(bytes: Buffer): Map<number, Buffer> {
  const found = new Map<number, Buffer>();
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    found.set(bytes.readUInt16LE(at + 2) & TYPE_MASK, bytes.subarray(at + 4, at + length));
    at += Math.max(4, (length + 3) & ~3);
  }
  return found;
}
