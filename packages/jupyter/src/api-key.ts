import type { IncomingMessage } from 'node:http';
import { Cloche } from '@cloche/sdk';
import { JupyterError } from './jupyter-error.ts';

/**
 * Returns a client of `/v1` with the key of a request: `Authorization: token` or `Bearer`, or the parameter `token`, which
 * browsers send because their WebSockets have no headers.
 *
 * @throws JupyterError 401 if the request has no key
 */
export function clientOf({ headers, url = '' }: IncomingMessage, apiUrl: string): Cloche {
  const header = /^(?:token|bearer) +([\x21-\x7e]+)$/i.exec(headers.authorization ?? '')?.[1];
  const apiKey = header ?? new URLSearchParams(url.split('?', 2)[1]).get('token') ?? '';
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new JupyterError(401, 'The API key is missing: send `Authorization: token` with a key of Cloche.');
  }
  // Retries are the client's own.
  return new Cloche({ url: apiUrl, apiKey, maxRetries: 0 });
}
