import type { IncomingMessage } from 'node:http';
import { GatewayError } from './gateway-error.ts';

/** The parts of an HTTP request in which clients send an API key. */
export type KeyedRequest = Pick<IncomingMessage, 'headers'> & { readonly url?: string | undefined };

/** Reads the API key from one part of a request, such as a header. Returns undefined if the key is not there. */
export type KeySource = (request: KeyedRequest) => string | undefined;

/** Characters of a key that an HTTP header can contain. */
const PRINTABLE = /^[\x21-\x7e][\x20-\x7e]*$/;

/** The header `X-Api-Key`. */
export const xApiKey: KeySource = ({ headers }) => {
  const key = headers['x-api-key'];
  return typeof key === 'string' && key !== '' ? key : undefined;
};

/** The header `Authorization: Bearer`. */
export const bearer: KeySource = schemeOf(/^bearer +(\S.*)$/i);

/** The header `Authorization: token`, or `Bearer`, as Jupyter's clients send it. */
export const token: KeySource = schemeOf(/^(?:token|bearer) +(\S.*)$/i);

/**
 * The password of Basic authentication, which HTTP clients send for a URL such as `http://key:clk_…@host/`. A user name
 * without a password counts as the key.
 */
export const basicPassword: KeySource = ({ headers }) => {
  const { name, password } = basicCredentials(headers.authorization) ?? {};
  return password || name || undefined;
};

/** The parameter `token` of the query, which browsers send because their WebSockets have no headers. */
export const queryToken: KeySource = ({ url = '' }) =>
  new URLSearchParams(url.split('?', 2)[1]).get('token') || undefined;

/**
 * Returns the first API key that the sources find. Skips a value that no HTTP header can contain.
 *
 * @throws GatewayError 401 whose message ends with `remedy`, a sentence that says where the client must send its key
 */
export function keyFrom(
  request: KeyedRequest,
  sources: readonly KeySource[],
  remedy: string,
  headers: Readonly<Record<string, string>> = {},
): string {
  for (const source of sources) {
    const key = source(request);
    if (key !== undefined && PRINTABLE.test(key)) return key;
  }
  throw new GatewayError(401, `The API key is missing: ${remedy}`, headers);
}

/** Returns name and password of `Authorization: Basic`; undefined if the header has another scheme or no value. */
export function basicCredentials(authorization = ''): { readonly name: string; readonly password: string } | undefined {
  const encoded = /^basic +(\S.*)$/i.exec(authorization)?.[1];
  if (encoded === undefined) return undefined;
  const [name = '', ...rest] = Buffer.from(encoded, 'base64').toString().split(':');
  return { name, password: rest.join(':') };
}

function schemeOf(form: RegExp): KeySource {
  return ({ headers }) => form.exec(headers.authorization ?? '')?.[1];
}
