import { constants } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { LRUCache } from 'lru-cache';
import { type Host, hostText } from '../policy/host-name.ts';
import type { CertificateAuthority } from './certificate-authority.ts';

const MAX_LEAVES = 1024;
/** Well before a leaf ends. */
const KEPT_MS = 24 * 60 * 60 * 1000;

/** What egress speaks TLS to sandboxes with, one for each host, made when first asked for. */
export class LeafContexts {
  readonly #cache: LRUCache<string, Promise<SecureContext>>;
  readonly #authority: CertificateAuthority;

  constructor(authority: CertificateAuthority, maxLeaves = MAX_LEAVES) {
    this.#authority = authority;
    this.#cache = new LRUCache({ max: maxLeaves, ttl: KEPT_MS });
  }

  /** One at a time is made for a host, however many ask at once. */
  get(host: Host): Promise<SecureContext> {
    const name = hostText(host);
    const known = this.#cache.get(name);
    if (known) return known;
    const made = this.#make(host);
    this.#cache.set(name, made);
    made.catch(() => this.#cache.delete(name));
    return made;
  }

  async #make(host: Host): Promise<SecureContext> {
    const { certificate, key } = await this.#authority.issue(host);
    // Without tickets no session is resumed: OpenSSL does not ask for the server name of a resumed one (tls.test.ts).
    const secureOptions = constants.SSL_OP_NO_TICKET;
    return createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.2', secureOptions });
  }
}
