import { X509Certificate } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CA_BUNDLE_PATH } from '../launch/root-file-system.ts';

/**
 * The authorities that sandboxes trust: those of the host, and for gated sandboxes the one that egress vouches by. Copies
 * that everybody may read, as the host's own file may be replaced, or be under a folder that is closed.
 */
export class TrustBundles {
  /** Undefined when the host has none. */
  readonly plain: string | undefined;
  readonly #gated: string;
  #certificate: string | undefined;

  /** @param dir where the copies lie. */
  constructor(dir: string, hostBundle: string = CA_BUNDLE_PATH) {
    const plain = join(dir, 'ca-certificates.crt');
    this.#gated = join(dir, 'ca-certificates-gated.crt');
    for (const file of [plain, this.#gated]) rmSync(file, { force: true });
    if (!existsSync(hostBundle)) return;
    copyFileSync(hostBundle, plain);
    chmodSync(plain, 0o644);
    this.plain = plain;
  }

  /** Throws before egress has told its certificate. */
  get gated(): string {
    return this.gatedCertificate && this.#gated;
  }

  /** That of the authority which gated sandboxes that are launched now trust. Throws before it is known. */
  get gatedCertificate(): string {
    if (this.#certificate === undefined) throw new Error('the authority of egress is not known yet');
    return this.#certificate;
  }

  /**
   * Has gated sandboxes that are launched from here on trust that authority. Those that live keep what they have.
   *
   * SECURITY: egress is not trusted with more than one certificate, so it is read and written anew here
   * (trust-bundle.test.ts). Throws when it is no authority's.
   */
  trust(pem: string): void {
    const certificate = new X509Certificate(pem);
    if (!certificate.ca) throw new Error('the certificate of egress is no authority’s');
    const text = certificate.toString();
    if (text === this.#certificate) return;
    const hosts = this.plain === undefined ? '' : readFileSync(this.plain, 'utf8');
    // In one step and as another file: the one that sandboxes have is never half written.
    writeFileSync(`${this.#gated}.new`, `${hosts}\n${text}`, { mode: 0o644 });
    chmodSync(`${this.#gated}.new`, 0o644);
    renameSync(`${this.#gated}.new`, this.#gated);
    this.#certificate = text;
  }
}
