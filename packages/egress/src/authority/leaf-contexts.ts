import { constants } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type Host, hostText } from '../policy/host-name.ts';
import { FairShare } from '../shares/fair-share.ts';
import type { Pace } from '../shares/pace.ts';
import type { CertificateAuthority } from './certificate-authority.ts';

/** A sandbox may have all of them, until others want theirs. */
const MAX_LEAVES = 1024;
/** Well before a leaf ends. */
const KEPT_MS = 24 * 60 * 60 * 1000;

/** Who asks: what is made counts as its own, and is made one at a time. */
export interface LeafOwner {
  readonly address: string;
  readonly signatures: Pace;
}

/**
 * What egress speaks TLS to sandboxes with, one for each host, made when first asked for and used by every sandbox. When
 * there are too many, the sandbox that had most of them made loses its oldest one.
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
    // Made meanwhile, where several asked at once.
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
    // Another sandbox may have had the same one made meanwhile.
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
