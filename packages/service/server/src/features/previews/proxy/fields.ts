/** Converts header fields of requests to the app and of its responses. */
import { PREVIEW_TOKEN_HEADER } from '@cloche/contract';
import { fieldPairs, hopByHopNames, type RawFields } from '@cloche/node-support';

/** Request fields that the proxy sets itself or handles itself. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'cookie',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-proto',
]);
/**
 * Response fields with an effect beyond the app's own pages: on the connection, on how the browser reaches the host, or
 * on other hosts of the site.
 *
 * SECURITY: `Clear-Site-Data` clears the cookies of all previews below one domain. Held by "cannot set header
 * fields that affect more than its own pages" in preview-proxy.test.ts.
 */
const NOT_RETURNED: ReadonlySet<string> = new Set([
  'alt-svc',
  'clear-site-data',
  'expect-ct',
  'nel',
  'origin-agent-cluster',
  'proxy-authenticate',
  'public-key-pins',
  'public-key-pins-report-only',
  'report-to',
  'sec-session-registration',
  'secure-session-registration',
  'strict-transport-security',
]);

export interface RequestFields {
  readonly raw: RawFields;
  /** The host of the preview. */
  readonly host: string;
  readonly protocol: 'http' | 'https';
  /** Undefined if `X-Forwarded-For` ends with it. */
  readonly clientAddress: string | undefined;
  /** Name of the cookie that gives access to the preview. */
  readonly tokenCookie: string;
  /** Whether the Authorization header is an API key of this service, which the app must not get. */
  readonly dropsAuthorization: boolean;
}

/**
 * Returns the request fields that the app gets.
 *
 * SECURITY: they contain neither the preview's token nor an API key; held by "tokens and cookies that open a preview do
 * not reach its app" in preview-proxy.test.ts.
 */
export function requestFields(request: RequestFields): string[] {
  const hop = hopByHopNames(request.raw);
  const fields: string[] = ['Host', request.host];
  const cookies: string[] = [];
  const forwardedFor: string[] = [];
  for (const [name, value] of fieldPairs(request.raw)) {
    const known = name.toLowerCase();
    if (known === 'cookie') cookies.push(...withoutCookie(value, request.tokenCookie));
    else if (known === 'x-forwarded-for') forwardedFor.push(value);
    else if (hop.has(known) || NOT_FORWARDED.has(known) || known.startsWith('x-cloche-')) continue;
    else if (known === 'authorization' && request.dropsAuthorization) continue;
    else fields.push(name, value);
  }
  if (cookies.length > 0) fields.push('Cookie', cookies.join('; '));
  if (request.clientAddress !== undefined) forwardedFor.push(request.clientAddress);
  fields.push('X-Forwarded-For', forwardedFor.join(', '));
  fields.push('X-Forwarded-Host', request.host, 'X-Forwarded-Proto', request.protocol);
  return fields;
}

export interface ResponseFields {
  readonly raw: RawFields;
  /** Name of the cookie that gives access to the preview. */
  readonly tokenCookie: string;
  readonly isPrivate: boolean;
}

/** Returns the app's response headers, with each cookie's domain removed. */
export function responseFields({ raw, tokenCookie, isPrivate }: ResponseFields): string[] {
  const hop = hopByHopNames(raw);
  const fields: string[] = [];
  const given = new Set<string>();
  for (const [name, value] of fieldPairs(raw)) {
    const known = name.toLowerCase();
    if (hop.has(known) || NOT_RETURNED.has(known)) continue;
    given.add(known);
    if (known !== 'set-cookie') fields.push(name, value);
    else if (!isCookie(value, tokenCookie)) fields.push(name, hostOnly(value));
  }
  // The URL is the only secret of a public preview, so do not send it to other sites as the referrer.
  if (!given.has('referrer-policy')) fields.push('Referrer-Policy', 'same-origin');
  // Isolates the app in its own browser process and disables `document.domain`.
  fields.push('X-Robots-Tag', 'noindex', 'Origin-Agent-Cluster', '?1');
  if (isPrivate) {
    // Browsers send no Sec-Fetch fields over plain HTTP, so the cookie alone would allow framing and embedding.
    fields.push('Content-Security-Policy', "frame-ancestors 'self'");
    if (!given.has('cross-origin-resource-policy')) fields.push('Cross-Origin-Resource-Policy', 'same-origin');
  }
  return fields;
}

/** Returns the value of a header field, or the first value of several. */
export function fieldOf(raw: RawFields, wanted: string): string | undefined {
  for (const [name, value] of fieldPairs(raw)) if (name.toLowerCase() === wanted) return value;
  return undefined;
}

export function tokenHeaderOf(raw: RawFields): string | undefined {
  return fieldOf(raw, PREVIEW_TOKEN_HEADER);
}

/** Returns every value of a cookie: another host may have set a cookie of this name for the whole domain. */
export function cookiesOf(raw: RawFields, cookie: string): string[] {
  const all = fieldPairs(raw).flatMap(([name, value]) => (name.toLowerCase() === 'cookie' ? value.split(';') : []));
  return all.filter((each) => isCookie(each, cookie)).map((each) => each.slice(each.indexOf('=') + 1).trim());
}

function withoutCookie(header: string, cookie: string): string[] {
  const all = header.split(';').map((each) => each.trim());
  return all.filter((each) => each !== '' && !isCookie(each, cookie));
}

function isCookie(text: string, cookie: string): boolean {
  return text.split('=', 1)[0]?.trim() === cookie;
}

/** Removes the `Domain` attribute, so that the browser sends the cookie only to its own host. */
function hostOnly(cookie: string): string {
  return cookie
    .split(';')
    .filter((part, index) => index === 0 || !/^\s*domain\s*(=|$)/i.test(part))
    .join(';');
}
