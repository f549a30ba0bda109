import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { CALLER_FIELD } from '@cloche/node-support';
import proxyAddr from '@fastify/proxy-addr';
import type { FastifyRequest } from 'fastify';
import type { TrustsProxy } from './trusted-proxies.ts';

/** Addresses whose signed names are remembered. */
const REMEMBERED = 10_000;
/** Longest field: an address and a signature. */
const FIELD_CHARACTERS = 128;

/**
 * Addresses of clients. A protocol beside `/v1` sends requests to `/v1` itself, perhaps to another server of the same
 * database: it names its client in a field that only these servers can sign.
 */
export class Callers {
  readonly #key: Buffer;
  readonly #trustsProxy: TrustsProxy | undefined;
  readonly #signed = new Map<string, string>();

  /** @param key 32 random bytes that all servers of the database share */
  constructor(key: Buffer, trustsProxy?: TrustsProxy) {
    this.#key = key;
    this.#trustsProxy = trustsProxy;
  }

  /** Returns the address of the client that sent a request, behind proxies that are trusted. */
  addressOf(request: IncomingMessage): string {
    if (!this.#trustsProxy) return request.socket.remoteAddress ?? '';
    // The connection of a Unix socket has no address, unlike what the type says.
    return proxyAddr(request, this.#trustsProxy) || '';
  }

  /** Names the client in a request that is given to a protocol beside `/v1`, and replaces what the client sent there. */
  introduce(request: IncomingMessage): void {
    request.headers[CALLER_FIELD] = this.#sign(this.addressOf(request));
  }

  /** Returns the address in the field of a request to `/v1`; undefined if no server of this database has signed it. */
  introduced({ headers }: IncomingMessage): string | undefined {
    const field = headers[CALLER_FIELD];
    if (typeof field !== 'string' || field.length > FIELD_CHARACTERS) return undefined;
    const address = field.slice(0, field.lastIndexOf(' '));
    const [given, own] = [Buffer.from(field), Buffer.from(this.#sign(address))];
    return given.length === own.length && timingSafeEqual(given, own) ? address : undefined;
  }

  #sign(address: string): string {
    const known = this.#signed.get(address);
    if (known !== undefined) return known;
    const signature = createHmac('sha256', this.#key).update(address).digest('base64url');
    const signed = `${address} ${signature}`;
    if (this.#signed.size >= REMEMBERED) this.#signed.clear();
    this.#signed.set(address, signed);
    return signed;
  }
}

/** Returns the address of the client of a request to `/v1`, which a protocol beside it may have sent. */
export function addressOf({ raw, ip }: FastifyRequest, callers: Callers | undefined): string {
  // The connection of a Unix socket has no address, unlike what the framework's type says.
  return callers?.introduced(raw) ?? (ip as string | undefined) ?? '';
}
