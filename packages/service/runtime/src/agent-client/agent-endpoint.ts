import { connect, type OnReadOpts, type Socket } from 'node:net';

/** Where an agent listens. Only `unix`, the path of a socket, is implemented. */
export type AgentEndpoint =
  | { readonly unix: string }
  | { readonly tls: { readonly host: string; readonly port: number } };

/** Opens a connection to one agent. With `onread`, the socket reads into the caller's buffers. */
export type Dial = (options?: { onread: OnReadOpts }) => Socket;

/** Returns the dialer of an endpoint. It reports failures as `error` events of the socket. */
export function dialer(endpoint: AgentEndpoint): Dial {
  if (!('unix' in endpoint)) throw new Error('connections to agents over TLS are not implemented');
  const { unix: path } = endpoint;
  return (options) => connect({ path, ...options });
}
