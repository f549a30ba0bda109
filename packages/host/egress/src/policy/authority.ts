import { type Host, normalizeHost } from './host-name.ts';

/** Host and port, as in a URL after `//` or in a `Host` field. */
export interface Authority {
  host: Host;
  port?: number;
}

const MAX_PORT = 65_535;

/** Returns undefined if the text has user information, brackets, or anything else but a host and a port. */
export function parseAuthority(text: string): Authority | undefined {
  const [name = '', port, ...rest] = text.split(':');
  const host = normalizeHost(name);
  if (host === undefined || rest.length > 0) return undefined;
  if (port === undefined || port === '') return { host };
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) === 0 || Number(port) > MAX_PORT) return undefined;
  return { host, port: Number(port) };
}
