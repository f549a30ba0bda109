/** Creates a certificate authority for a test, with one server certificate. */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

export interface TestAuthority extends Disposable {
  /** Root certificate, in a file that every user may read. */
  readonly rootFile: string;
  readonly root: string;
  /** Certificate and key of the server. */
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificate with the same names that no trusted authority signed. */
  readonly unknownCertFile: string;
}

export async function testAuthority(names: readonly string[], addresses: readonly string[]): Promise<TestAuthority> {
  const dir = mkdtempSync(join(tmpdir(), 'cloche-ca-'));
  chmodSync(dir, 0o755);
  const file = (name: string) => join(dir, name);
  const alternatives = [...names.map((name) => `DNS:${name}`), ...addresses.map((address) => `IP:${address}`)];
  const key = (name: string) => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-keyout',
    name,
  ];
  const certificate = async (subject: string, ...args: string[]) => {
    const serial = ['-set_serial', `0x4${randomBytes(8).toString('hex')}`];
    await execa('openssl', ['req', '-x509', '-subj', `/CN=${subject}`, '-days', '2', ...serial, ...args]);
  };
  const forServer = ['-addext', `subjectAltName=${alternatives.join(',')}`, '-addext', 'basicConstraints=CA:FALSE'];
  await certificate('cloche test root', ...key(file('root.key')), '-out', file('root.crt'));
  await certificate('server', ...key(file('server.key')), ...forServer, '-out', file('unknown.crt'));
  const issuer = ['-CA', file('root.crt'), '-CAkey', file('root.key')];
  await certificate('server', ...issuer, '-key', file('server.key'), ...forServer, '-out', file('server.crt'));
  chmodSync(file('root.crt'), 0o644);
  return {
    rootFile: file('root.crt'),
    root: readFileSync(file('root.crt'), 'utf8'),
    certFile: file('server.crt'),
    keyFile: file('server.key'),
    unknownCertFile: file('unknown.crt'),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}
