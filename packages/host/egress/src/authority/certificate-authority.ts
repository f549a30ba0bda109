import 'reflect-metadata';
import { createPrivateKey, createPublicKey, KeyObject, randomBytes, webcrypto } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { type Host, hostText } from '../policy/host-name.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY_DAYS = 3650;
const LEAF_DAYS = 30;
/** Backdating of certificates, because checking software can round times. (Sandboxes share the host's clock.) */
const BACKDATED_MS = DAY_MS;
/** Remaining validity below which the authority is replaced. */
const RENEWED_BEFORE_MS = 2 * LEAF_DAYS * DAY_MS;

/** A certificate and its private key, both PEM. */
export interface Leaf {
  certificate: string;
  key: string;
}

/**
 * The certificate authority of this host. It signs certificates for the servers that egress impersonates; only
 * sandboxes trust it.
 *
 * SECURITY: the key stays in a folder that only egress' user can read (certificate-authority.test.ts). Sandboxes get
 * the certificate, which does not allow intermediate authorities.
 */
export class CertificateAuthority {
  /** The certificate of the authority, as PEM. */
  readonly certificate: string;
  readonly #issuer: X509Certificate;
  readonly #key: webcrypto.CryptoKey;
  /** Shared by all leaves: each leaf's key would be equally secret, and generating one costs more than signing. */
  readonly #leafKeys: webcrypto.CryptoKeyPair;
  readonly #leafKeyPem: string;

  private constructor(certificate: string, key: webcrypto.CryptoKey, leafKeys: webcrypto.CryptoKeyPair) {
    this.certificate = certificate;
    this.#issuer = new X509Certificate(certificate);
    this.#key = key;
    this.#leafKeys = leafKeys;
    this.#leafKeyPem = pemOf(leafKeys.privateKey);
  }

  /** Reads the authority from the folder. Creates one if there is none, or if the existing one expires soon. */
  static async open(dir: string): Promise<CertificateAuthority> {
    const file = join(dir, 'authority.pem');
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (!isUsable(file)) {
      // Key and certificate are in one file, so that they are replaced together.
      writeFileSync(`${file}.new`, await makeAuthority(), { mode: 0o600 });
      renameSync(`${file}.new`, file);
    }
    const pem = readFileSync(file, 'utf8');
    const key = createPrivateKey(pem).toCryptoKey(ALGORITHM, false, ['sign']);
    return new CertificateAuthority(new X509Certificate(pem).toString('pem'), key, await makeKeys());
  }

  /** Returns a certificate for one host, valid for 30 days. */
  async issue(host: Host): Promise<Leaf> {
    const { kind } = host;
    const certificate = await X509CertificateGenerator.create({
      serialNumber: newSerialNumber(),
      issuer: this.#issuer.subject,
      // A common name holds at most 64 characters. Clients check the alternative name instead.
      subject: 'CN=Cloche egress',
      ...validity(LEAF_DAYS),
      signingKey: this.#key,
      publicKey: this.#leafKeys.publicKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new SubjectAlternativeNameExtension([{ type: kind === 'name' ? 'dns' : 'ip', value: hostText(host) }]),
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        await AuthorityKeyIdentifierExtension.create(this.#issuer.publicKey),
      ],
    });
    return { certificate: certificate.toString('pem'), key: this.#leafKeyPem };
  }
}

function isUsable(file: string): boolean {
  if (!existsSync(file)) return false;
  const pem = readFileSync(file, 'utf8');
  const certificate = new X509Certificate(pem);
  // Clients would reject leaves that are signed with another key.
  const publicKey = createPublicKey(pem.slice(pem.indexOf('-----BEGIN PRIVATE KEY-----')));
  const isPair = publicKey.export({ type: 'spki', format: 'der' }).equals(Buffer.from(certificate.publicKey.rawData));
  return isPair && certificate.notAfter.getTime() - Date.now() > RENEWED_BEFORE_MS;
}

async function makeAuthority(): Promise<string> {
  const keys = await makeKeys();
  const extensions: Extension[] = [
    new BasicConstraintsExtension(true, 0, true),
    new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
    await SubjectKeyIdentifierExtension.create(keys.publicKey),
  ];
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerialNumber(),
    // A random name, so that a new authority is not mistaken for the one that it replaces.
    name: `CN=Cloche egress authority ${randomBytes(4).toString('hex')}`,
    ...validity(AUTHORITY_DAYS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions,
  });
  return `${certificate.toString('pem')}\n${pemOf(keys.privateKey)}`;
}

function makeKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

function pemOf(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: 'pkcs8', format: 'pem' }).toString();
}

function validity(days: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - BACKDATED_MS), notAfter: new Date(now + days * DAY_MS) };
}

/** Returns a positive number of 16 bytes, as RFC 5280 requires. */
function newSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
