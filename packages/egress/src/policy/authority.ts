import { type Host, normalizeHost } from './host-name.ts';

/** What follows `//` in a URL, or stands in a `Host` field. */
export interface Authority {
  host: Host;
  port?: number;
}

const MAX_PORT = 65_535;

/** Undefined when it has user information, brackets, or anything else than a host and a port. */
export function parseAuthority(text: string): Authority | undefined {
  const [name = '', port, ...rest] = text.split(':');
  const host = normalizeHost(name);
  if (host === undefined || rest.length > 0) return undefined;
  if (port === undefined || port === '') return { host };
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) === 0 || Number(port) > MAX_PORT) return undefined;
  return { host, port: Number(port) };
}
