import { closeSync } from 'node:fs';
import koffi from 'koffi';
import { boundSocket } from '../linux/bound-socket.ts';
import { bindLibc, checked, SyscallError } from '../linux/libc.ts';
import { attributesOf } from '../linux/netlink.ts';

const socketCall = bindLibc('int socket(int domain, int type, int protocol)');
const recvCall = bindLibc('long recv(int fd, _Out_ uint8_t *buffer, size_t length, int flags)');

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC_NONBLOCK = 3 | 0o2000000 | 0o4000;
const EAGAIN = 11;
const ENOBUFS = 105;
const MESSAGES_BYTES = 32 * 1024;
const HEADER_BYTES = 16;

const NETLINK_ROUTE = 0;
/** `RTNLGRP_LINK` and `RTNLGRP_IPV4_ROUTE`, as bits. */
const LINKS_AND_ROUTES = (1 << 0) | (1 << 6);
const RTM_NEWLINK = 16;
const RTM_DELLINK = 17;
const IFINFOMSG_BYTES = 16;
const IFLA_IFNAME = 3;
const RTMSG_BYTES = 12;
const RTA_DST = 1;
/** First two bytes of `SANDBOX_CIDR`. */
const SANDBOX_PREFIX = Buffer.from([198, 18]);
/** Links of sandboxes and of hostd, of every installation. */
const OWN_LINK = /^c[legpt][a-z0-9]{8}/;

const NETLINK_NETFILTER = 12;
/** `NFNLGRP_NFTABLES`, as a bit. */
const RULES = 1 << 6;
const NFT_MSG_NEWGEN = 15;
const NFGENMSG_BYTES = 4;
/** The table, in messages about chains, rules, sets and their elements. */
const NFTA_TABLE = 1;

/**
 * Tells whether links, IPv4 routes or nftables rules of this host have changed. Changes by Cloche itself, such as the
 * links of sandboxes, do not count. The kernel does not tell of rules that `iptables-legacy` changes.
 */
export class NetworkChanges implements Disposable {
  readonly #links = subscribe(NETLINK_ROUTE, LINKS_AND_ROUTES);
  readonly #rules = subscribe(NETLINK_NETFILTER, RULES);

  /** Returns whether anything has changed since the last call. Does not wait. */
  take(): boolean {
    // Both, so that neither socket keeps old messages.
    return [hasForeign(this.#links, isForeignLinkOrRoute), hasForeign(this.#rules, isForeignRule)].includes(true);
  }

  [Symbol.dispose](): void {
    closeSync(this.#links);
    closeSync(this.#rules);
  }
}

function subscribe(protocol: number, groups: number): number {
  const fd = checked(socketCall(AF_NETLINK, SOCK_RAW_CLOEXEC_NONBLOCK, protocol), 'socket', `netlink ${protocol}`);
  const address = Buffer.alloc(12);
  address.writeUInt16LE(AF_NETLINK, 0);
  address.writeUInt32LE(groups, 8);
  return boundSocket(fd, address, `netlink ${protocol}`);
}

type Judge = (type: number, body: Buffer) => boolean;

function hasForeign(fd: number, isForeign: Judge): boolean {
  const bytes = Buffer.alloc(MESSAGES_BYTES);
  for (let found = false; ; ) {
    const length = recvCall(fd, bytes, bytes.length, 0);
    const errno = length < 0 ? koffi.errno() : 0;
    if (errno === EAGAIN) return found;
    // The kernel had more to tell than the socket holds, and drops the rest.
    if (errno === ENOBUFS) found = true;
    else if (errno !== 0) throw new SyscallError('recv', errno, 'netlink');
    else found ||= messagesOf(bytes.subarray(0, length)).some(([type, body]) => isForeign(type, body));
  }
}

function messagesOf(bytes: Buffer): [type: number, body: Buffer][] {
  const found: [number, Buffer][] = [];
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    const length = Math.max(HEADER_BYTES, bytes.readUInt32LE(at));
    found.push([bytes.readUInt16LE(at + 4), bytes.subarray(at + HEADER_BYTES, at + length)]);
    at += (length + 3) & ~3;
  }
  return found;
}

function isForeignLinkOrRoute(type: number, body: Buffer): boolean {
  if (type === RTM_NEWLINK || type === RTM_DELLINK) {
    return !OWN_LINK.test(String(attributesOf(body.subarray(IFINFOMSG_BYTES)).get(IFLA_IFNAME) ?? ''));
  }
  const destination = attributesOf(body.subarray(RTMSG_BYTES)).get(RTA_DST);
  return destination?.subarray(0, SANDBOX_PREFIX.length).equals(SANDBOX_PREFIX) !== true;
}

function isForeignRule(type: number, body: Buffer): boolean {
  // Follows every transaction, also those of Cloche.
  if ((type & 0xff) === NFT_MSG_NEWGEN) return false;
  return !attributesOf(body.subarray(NFGENMSG_BYTES)).get(NFTA_TABLE)?.toString().startsWith('cloche_');
}
