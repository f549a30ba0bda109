/** Why a service cannot be reached, and what to do about it. */

const UNKNOWN_AUTHORITY =
  'its certificate is of an authority that this machine does not know; name the file of the authority in NODE_EXTRA_CA_CERTS';
const PLAIN_HTTP = 'it speaks plain HTTP there; use http:// in place of https://';
const NO_ANSWER = 'it does not answer';

const WHY: Readonly<Record<string, string>> = {
  ERR_SSL_WRONG_VERSION_NUMBER: PLAIN_HTTP,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: PLAIN_HTTP,
  EPROTO: PLAIN_HTTP,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  CERT_HAS_EXPIRED: 'its certificate has expired; whoever operates it renews it',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name; use the name that the certificate has',
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'its name cannot be resolved now',
  ETIMEDOUT: NO_ANSWER,
  UND_ERR_CONNECT_TIMEOUT: NO_ANSWER,
  UND_ERR_HEADERS_TIMEOUT: NO_ANSWER,
  EHOSTUNREACH: 'this machine has no route to it',
  ENETUNREACH: 'this machine has no route to it',
};
/** Failures of plain HTTP that a server with TLS causes. */
const LIKE_TLS = /^(?:HPE_|UND_ERR_SOCKET|ECONNRESET)/;

/** @param start command that starts a service on this machine */
export function unreachableWords(url: string, error: { readonly cause?: unknown }, start: string): string {
  const code = codeOf(error);
  const where = `Cloche cannot be reached at ${url} (${code})`;
  const why = WHY[code];
  if (why?.includes(';')) return `${where}: ${why}.`;
  if (why === undefined && LIKE_TLS.test(code) && url.startsWith('http:'))
    return `${where}; if it uses TLS, write https:// in place of http://.`;
  const own = isLoopback(url) ? `start it with \`${start}\`, or give its address` : 'check the address that you give';
  return `${where}${why === undefined ? '' : `: ${why}`}; ${own} with --url or CLOCHE_URL.`;
}

function codeOf(error: { readonly cause?: unknown }): string {
  let [code, words, from]: [string | undefined, string, unknown] = [undefined, 'no answer', error.cause];
  // The innermost one says the most.
  while (from instanceof Error) {
    if ('code' in from && typeof from.code === 'string') code = from.code;
    words = from.message;
    from = from.cause;
  }
  return code ?? words;
}

function isLoopback(url: string): boolean {
  const { hostname } = URL.canParse(url) ? new URL(url) : { hostname: '' };
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127\./.test(hostname);
}
