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
/** Clocks of sandboxes are the host's, but what checks a certificate may round. */
const BACKDATED_MS = DAY_MS;
/** The authority is made anew when it ends sooner than this. */
const RENEWED_BEFORE_MS = 2 * LEAF_DAYS * DAY_MS;

/** A certificate with the key that belongs to it, both PEM. */
export interface Leaf {
  certificate: string;
  key: string;
}

/**
 * The authority of this host alone, which vouches to sandboxes for the servers that egress stands in for.
 *
 * SECURITY: its key stays in a folder of egress' user (certificate-authority.test.ts); what sandboxes get is its
 * certificate, which allows it no further authorities.
 */
export class CertificateAuthority {
  /** PEM. */
  readonly certificate: string;
  readonly #issuer: X509Certificate;
  readonly #key: webcrypto.CryptoKey;
  /** One for all leaves: it is as secret as any of them would be, and making one costs more than signing. */
  readonly #leafKeys: webcrypto.CryptoKeyPair;
  readonly #leafKeyPem: string;

  private constructor(certificate: string, key: webcrypto.CryptoKey, leafKeys: webcrypto.CryptoKeyPair) {
    this.certificate = certificate;
    this.#issuer = new X509Certificate(certificate);
    this.#key = key;
    this.#leafKeys = leafKeys;
    this.#leafKeyPem = pemOf(leafKeys.privateKey);
  }

  /** Reads the authority of the folder, or makes it where there is none that is good for long enough. */
  static async open(dir: string): Promise<CertificateAuthority> {
    const file = join(dir, 'authority.pem');
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (!isUsable(file)) {
      // Key and certificate in one file, so that they are replaced together.
      writeFileSync(`${file}.new`, await makeAuthority(), { mode: 0o600 });
      renameSync(`${file}.new`, file);
    }
    const pem = readFileSync(file, 'utf8');
    const key = createPrivateKey(pem).toCryptoKey(ALGORITHM, false, ['sign']);
    return new CertificateAuthority(new X509Certificate(pem).toString('pem'), key, await makeKeys());
  }

  /** A certificate for one host, good for 30 days. */
  async issue(host: Host): Promise<Leaf> {
    const { kind } = host;
    const certificate = await X509CertificateGenerator.create({
      serialNumber: newSerialNumber(),
      issuer: this.#issuer.subject,
      // A common name holds 64 characters; who checks reads the alternative name.
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
  // A key that does not belong to the certificate would make leaves that nobody believes.
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
    // Named apart from every other one, so that an authority that replaces it is not taken for it.
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

/** Positive and 16 bytes long, as RFC 5280 wants it. */
function newSerialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString('hex');
}
