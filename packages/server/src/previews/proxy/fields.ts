/** Header fields on their way to what is previewed and back. */
import { PREVIEW_TOKEN_HEADER } from '@cloche/contract';

/** As Node lists them: names and values in turn. */
export type RawFields = readonly string[];

/** Of one connection, not of the exchange. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** Set anew, or answered here. */
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
/** Where else to find the same origin is not for the app to say. */
const NOT_RETURNED: ReadonlySet<string> = new Set(['alt-svc']);

export interface RequestFields {
  readonly raw: RawFields;
  /** The host of the preview. */
  readonly host: string;
  readonly protocol: 'http' | 'https';
  readonly clientAddress: string;
  /** The cookie that opens the preview. */
  readonly tokenCookie: string;
  /** Whether the request carries an API key, which is none of the app's business. */
  readonly dropsAuthorization: boolean;
}

/**
 * What the app gets.
 *
 * SECURITY: neither what opens the preview nor an API key is among it; held by "what opens a preview does not reach
 * what is previewed" in preview-proxy.test.ts.
 */
export function requestFields(request: RequestFields): string[] {
  const hop = hopByHop(request.raw);
  const fields: string[] = ['Host', request.host];
  const cookies: string[] = [];
  const forwardedFor: string[] = [];
  for (const [name, value] of pairs(request.raw)) {
    const known = name.toLowerCase();
    if (known === 'cookie') cookies.push(...withoutCookie(value, request.tokenCookie));
    else if (known === 'x-forwarded-for') forwardedFor.push(value);
    else if (hop.has(known) || NOT_FORWARDED.has(known) || known.startsWith('x-cloche-')) continue;
    else if (known === 'authorization' && request.dropsAuthorization) continue;
    else fields.push(name, value);
  }
  if (cookies.length > 0) fields.push('Cookie', cookies.join('; '));
  fields.push('X-Forwarded-For', [...forwardedFor, request.clientAddress].join(', '));
  fields.push('X-Forwarded-Host', request.host, 'X-Forwarded-Proto', request.protocol);
  return fields;
}

/** What the browser gets: the app's own fields, its cookies kept to its host. */
export function responseFields(raw: RawFields, tokenCookie: string): string[] {
  const hop = hopByHop(raw);
  const fields: string[] = [];
  let hasReferrerPolicy = false;
  for (const [name, value] of pairs(raw)) {
    const known = name.toLowerCase();
    if (hop.has(known) || NOT_RETURNED.has(known)) continue;
    if (known === 'referrer-policy') hasReferrerPolicy = true;
    if (known !== 'set-cookie') fields.push(name, value);
    else if (!isCookie(value, tokenCookie)) fields.push(name, hostOnly(value));
  }
  // A public preview is as secret as its URL.
  if (!hasReferrerPolicy) fields.push('Referrer-Policy', 'same-origin');
  fields.push('X-Robots-Tag', 'noindex');
  return fields;
}

/** The one header that is asked for by name; of several the first. */
export function fieldOf(raw: RawFields, wanted: string): string | undefined {
  for (const [name, value] of pairs(raw)) if (name.toLowerCase() === wanted) return value;
  return undefined;
}

export function tokenHeaderOf(raw: RawFields): string | undefined {
  return fieldOf(raw, PREVIEW_TOKEN_HEADER);
}

/** Every value of that cookie: another host may have set one of the same name for all hosts below the domain. */
export function cookiesOf(raw: RawFields, cookie: string): string[] {
  const all = [...pairs(raw)].flatMap(([name, value]) => (name.toLowerCase() === 'cookie' ? value.split(';') : []));
  return all.filter((each) => isCookie(each, cookie)).map((each) => each.slice(each.indexOf('=') + 1).trim());
}

function* pairs(raw: RawFields): Generator<[name: string, value: string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) yield [raw[at] ?? '', raw[at + 1] ?? ''];
}

function hopByHop(raw: RawFields): ReadonlySet<string> {
  const named = [...pairs(raw)]
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(',').map((token) => token.trim().toLowerCase()));
  return new Set([...HOP_BY_HOP, ...named]);
}

function withoutCookie(header: string, cookie: string): string[] {
  const all = header.split(';').map((each) => each.trim());
  return all.filter((each) => each !== '' && !isCookie(each, cookie));
}

function isCookie(text: string, cookie: string): boolean {
  return text.split('=', 1)[0]?.trim() === cookie;
}

/** Without a domain a cookie is its host's alone. */
function hostOnly(cookie: string): string {
  return cookie
    .split(';')
    .filter((part, index) => index === 0 || !/^\s*domain\s*(=|$)/i.test(part))
    .join(';');
}
