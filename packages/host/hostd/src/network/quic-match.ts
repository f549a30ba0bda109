/**
 * Versions of QUIC that servers on the internet answer, from IANA's registry and those of the large implementations.
 * These 4 bytes and one bit distinguish their packets from other protocols.
 */
const VERSIONS = [
  '0x00000001', // RFC 9000
  '0x6b3343cf', // RFC 9369, version 2
  '0x709a50c4', // drafts of version 2
  '0xff000000-0xff0000ff', // drafts of version 1
  '0xfaceb000-0xfaceb0ff', // Meta's mvfst
  '0xabcd0000-0xabcd00ff', // Microsoft's MsQuic
  '0x51303030-0x51303939', // Google's QUIC, versions Q000 to Q099
  '0x54303030-0x54303939', // Google's QUIC with TLS, versions T000 to T099
];
/**
 * Smallest UDP length of a client's first packet; a server must discard one in a smaller datagram (RFC 9000, 14.1).
 * Includes the UDP header.
 */
const MIN_INITIAL_BYTES = 1200 + 8;

/** Bit offsets from the start of the UDP header, after any IP options; fragments are reassembled before. */
const FIRST_BYTE = '@th,64,8';
const VERSION = '@th,72,32';
const CONNECTION_ID_LENGTH = '@th,104,8';
const GQUIC_VERSION_START = '@th,136,16';

/**
 * Matches packets that every QUIC connection begins with, in both directions. If the rules cannot see a client's first
 * packet, for example inside a datagram of several segments, the server's answer has the same version in its long
 * header and is matched.
 *
 * The first bit marks a long header. The second is ignored for known versions, as clients may clear it (RFC 9287).
 */
export const QUIC_MATCHES: readonly string[] = [
  `meta l4proto udp ${FIRST_BYTE} & 0x80 == 0x80 ${VERSION} { ${VERSIONS.join(', ')} }`,
  // Matches a client's first packet with an unknown version, but only before an answer, because later packets of IPsec
  // and other protocols can look the same. Version 0 is a server's version negotiation.
  `meta l4proto udp ct state new ${FIRST_BYTE} & 0xc0 == 0xc0 ${VERSION} != 0 ${CONNECTION_ID_LENGTH} 8-20 udp length >= ${MIN_INITIAL_BYTES}`,
  // gQUIC up to Q043, which LiteSpeed still serves: flags for a version and a connection id of 8 bytes, then "Q0".
  `meta l4proto udp ${FIRST_BYTE} & 0x8b == 0x09 ${GQUIC_VERSION_START} 0x5130`,
];
