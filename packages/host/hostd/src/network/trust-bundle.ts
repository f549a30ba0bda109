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
import { CERTIFICATE_BUNDLES, firstPresent } from '@cloche/layout';
import { TRUST_FILE } from '../storage/root-file-system.ts';

/**
 * The authorities that sandboxes trust: those of the host, and for gated sandboxes also egress's. World-readable
 * copies, because the host's own file may be replaced, or be in a folder that sandboxes cannot read.
 */
export class TrustBundles {
  /** Folder with the authorities as `TRUST_FILE`; empty when the host has none. */
  readonly plainDir: string;
  readonly #gatedDir: string;
  #certificate: string | undefined;

  /** @param dir parent of the folder for the copies */
  constructor(dir: string, hostBundle = firstPresent(CERTIFICATE_BUNDLES)) {
    const folder = join(dir, 'trust');
    rmSync(folder, { recursive: true, force: true });
    this.plainDir = join(folder, 'plain');
    this.#gatedDir = join(folder, 'gated');
    for (const each of [this.plainDir, this.#gatedDir]) mkdirSync(each, { recursive: true, mode: 0o755 });
    if (!existsSync(hostBundle)) return;
    copyFileSync(hostBundle, this.#plain);
    chmodSync(this.#plain, 0o644);
  }

  /** The folder for gated sandboxes. Throws before egress has sent its certificate. */
  get gatedDir(): string {
    return this.gatedCertificate && this.#gatedDir;
  }

  get #plain(): string {
    return join(this.plainDir, TRUST_FILE);
  }

  /** Certificate of the authority that gated sandboxes launched now trust. Throws before egress has sent it. */
  get gatedCertificate(): string {
    if (this.#certificate === undefined) throw new Error('the authority of egress is not known yet');
    return this.#certificate;
  }

  /**
   * Sets the authority that gated sandboxes launched from here on trust. Running sandboxes keep theirs.
   *
   * SECURITY: egress is trusted with only one certificate, so it is parsed and serialized again here
   * (trust-bundle.test.ts). Throws when the certificate is not an authority's.
   */
  trust(pem: string): void {
    const certificate = new X509Certificate(pem);
    if (!certificate.ca) throw new Error('the certificate of egress is not one of an authority');
    const text = certificate.toString();
    if (text === this.#certificate) return;
    const hosts = existsSync(this.#plain) ? readFileSync(this.#plain, 'utf8') : '';
    const gated = join(this.#gatedDir, TRUST_FILE);
    // Atomically and as a new file: the file that running sandboxes have is never half written.
    writeFileSync(`${gated}.new`, `${hosts}\n${text}`, { mode: 0o644 });
    chmodSync(`${gated}.new`, 0o644);
    renameSync(`${gated}.new`, gated);
    this.#certificate = text;
  }
}
