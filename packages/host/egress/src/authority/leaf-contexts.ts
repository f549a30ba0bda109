import { constants } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type Host, hostText } from '../policy/host-name.ts';
import { FairShare } from '../shares/fair-share.ts';
import type { PacedQueue } from '../shares/paced-queue.ts';
import type { CertificateAuthority } from './certificate-authority.ts';

/** Most contexts kept. One sandbox may use all of them until other sandboxes need some. */
const MAX_LEAVES = 1024;
/** Time that a context is kept, well below the validity of its certificate. */
const KEPT_MS = 24 * 60 * 60 * 1000;

/** The sandbox that needs a certificate. The certificate counts towards its share; it gets one at a time. */
export interface LeafOwner {
  readonly address: string;
  readonly signatures: PacedQueue;
}

/**
 * TLS contexts with which egress answers sandboxes. There is one for each host, made on first use and shared by all
 * sandboxes. When there are too many, the sandbox that caused most of them loses its oldest one.
 */
export class LeafContexts {
  readonly #kept = new Map<string, { context: SecureContext; until: number; place: Disposable }>();
  readonly #authority: CertificateAuthority;
  readonly #share: FairShare;

  constructor(authority: CertificateAuthority, maxLeaves = MAX_LEAVES) {
    this.#authority = authority;
    this.#share = new FairShare({ total: maxLeaves, perSource: maxLeaves + 1 });
  }

  async get(host: Host, { address, signatures }: LeafOwner): Promise<SecureContext> {
    const name = hostText(host);
    const known = this.#find(name);
    if (known) return known;
    using _turn = await signatures.begin();
    // A concurrent call may have made it meanwhile.
    return this.#find(name) ?? this.#keep(name, address, await this.#make(host));
  }

  #find(name: string): SecureContext | undefined {
    const kept = this.#kept.get(name);
    if (kept && kept.until > Date.now()) return kept.context;
    kept?.place[Symbol.dispose]();
    this.#kept.delete(name);
    return undefined;
  }

  #keep(name: string, owner: string, context: SecureContext): SecureContext {
    // A call for another sandbox may have made the same one meanwhile.
    this.#kept.get(name)?.place[Symbol.dispose]();
    const place = this.#share.tryEnter(owner, { isIdle: true, evict: () => this.#kept.delete(name) });
    if (place) this.#kept.set(name, { context, until: Date.now() + KEPT_MS, place });
    return context;
  }

  async #make(host: Host): Promise<SecureContext> {
    const { certificate, key } = await this.#authority.issue(host);
    // Without tickets no session is resumed: OpenSSL does not ask for the server name of a resumed one (tls.test.ts).
    const secureOptions = constants.SSL_OP_NO_TICKET;
    return createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.2', secureOptions });
  }
}
