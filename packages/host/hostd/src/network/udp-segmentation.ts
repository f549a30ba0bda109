/** The ethtool-netlink message that a sandbox's network needs. */
import { attribute, NESTED, Netlink, u32 } from '../linux/netlink.ts';

const NETLINK_GENERIC = 16;
const REQUEST = 1;
const REQUEST_ACK = REQUEST | 4;
const CONTROL_FAMILY = 16;
const GET_FAMILY = 3;
const FAMILY_ID = 1;
const FAMILY_NAME = 2;
const SET_FEATURES = 12;
const FEATURES_HEADER = 1;
const FEATURES_WANTED = 3;
const HEADER_DEVICE = 1;
const HEADER_FLAGS = 3;
const OMIT_REPLY = 2;
const BITSET_BITS = 3;
const BITSET_BIT = 1;
const BIT_NAME = 2;
/** Bytes of the headers of netlink and generic netlink. */
const HEADERS_BYTES = 20;

let ethtoolFamily: number | undefined;

/**
 * Makes the kernel split datagrams before the link when a socket sends several as one packet (`UDP_SEGMENT`). TCP
 * segmentation stays on: without it TCP would lose six sevenths of its speed.
 */
export function disableUdpSegmentation(networkNamespaceFd: number, link: number): void {
  using generic = new Netlink(networkNamespaceFd, NETLINK_GENERIC);
  ethtoolFamily ??= findFamily(generic, 'ethtool');
  const device = [attribute(HEADER_DEVICE, u32(link)), attribute(HEADER_FLAGS, u32(OMIT_REPLY))];
  // A bit without a value is cleared.
  const bit = nested(BITSET_BIT, attribute(BIT_NAME, Buffer.from('tx-udp-segmentation\0')));
  const body = Buffer.concat([
    header(SET_FEATURES),
    nested(FEATURES_HEADER, Buffer.concat(device)),
    nested(FEATURES_WANTED, nested(BITSET_BITS, bit)),
  ]);
  generic.apply({ type: ethtoolFamily, flags: REQUEST_ACK, body, subject: 'disable UDP segmentation' });
}

function findFamily(generic: Netlink, name: string): number {
  const body = Buffer.concat([header(GET_FAMILY), attribute(FAMILY_NAME, Buffer.from(`${name}\0`))]);
  const answer = generic.ask({ type: CONTROL_FAMILY, flags: REQUEST, body, subject: `find ${name}` });
  for (let at = HEADERS_BYTES; at + 6 <= answer.length; at += (answer.readUInt16LE(at) + 3) & ~3) {
    if (answer.readUInt16LE(at + 2) === FAMILY_ID) return answer.readUInt16LE(at + 4);
  }
  throw new Error(`the kernel has no netlink family ${name}`);
}

function header(command: number): Buffer {
  return Buffer.from([command, 1, 0, 0]);
}

function nested(type: number, value: Buffer): Buffer {
  return attribute(type | NESTED, value);
}
