import { X509Certificate } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { CA_BUNDLE_PATH, TRUST_FILE } from '../storage/root-file-system.ts';

/**
 * The authorities that sandboxes trust: those of the host, and for gated sandboxes the one that egress vouches by. Copies
 * that everybody may read, as the host's own file may be replaced, or be under a folder that is closed.
 */
export class TrustBundles {
  /** A folder with the authorities as `TRUST_FILE`; without it when the host has none. */
  readonly plainDir: string;
  readonly #gatedDir: string;
  #certificate: string | undefined;

  /** @param dir where the copies lie, in a folder of their own */
  constructor(dir: string, hostBundle: string = CA_BUNDLE_PATH) {
    const folder = join(dir, 'trust');
    rmSync(folder, { recursive: true, force: true });
    this.plainDir = join(folder, 'plain');
    this.#gatedDir = join(folder, 'gated');
    for (const each of [this.plainDir, this.#gatedDir]) mkdirSync(each, { recursive: true, mode: 0o755 });
    if (!existsSync(hostBundle)) return;
    copyFileSync(hostBundle, this.#plain);
    chmodSync(this.#plain, 0o644);
  }

  /** The folder for gated sandboxes. Throws before egress has told its certificate. */
  get gatedDir(): string {
    return this.gatedCertificate && this.#gatedDir;
  }

  get #plain(): string {
    return join(this.plainDir, TRUST_FILE);
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
    if (!certificate.ca) throw new Error('the certificate of egress is not one of an authority');
    const text = certificate.toString();
    if (text === this.#certificate) return;
    const hosts = existsSync(this.#plain) ? readFileSync(this.#plain, 'utf8') : '';
    const gated = join(this.#gatedDir, TRUST_FILE);
    // In one step and as another file: the one that sandboxes have is never half written.
    writeFileSync(`${gated}.new`, `${hosts}\n${text}`, { mode: 0o644 });
    chmodSync(`${gated}.new`, 0o644);
    renameSync(`${gated}.new`, gated);
    this.#certificate = text;
  }
}
