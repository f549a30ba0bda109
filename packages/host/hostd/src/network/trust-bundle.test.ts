import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { TRUST_FILE } from '../storage/root-file-system.ts';
import { TrustBundles } from './trust-bundle.ts';

const fileIn = (folder: string) => join(folder, TRUST_FILE);
let dir: string;
let hosts: string;
const AUTHORITY = makeCertificate('CA:TRUE');
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cloche-trust-'));
  hosts = join(dir, 'hosts.pem');
  writeFileSync(hosts, 'of the host\n');
});
afterEach(() => rmSync(dir, { recursive: true }));

test("gated sandboxes trust egress and the host's authorities; others trust the host's authorities", () => {
  const bundles = new TrustBundles(dir, hosts);
  bundles.trust(AUTHORITY);
  assert.equal(readFileSync(fileIn(bundles.plainDir), 'utf8'), 'of the host\n');
  assert.equal(readFileSync(fileIn(bundles.gatedDir), 'utf8'), `of the host\n\n${AUTHORITY}`);
  assert.equal(statSync(fileIn(bundles.gatedDir)).mode & 0o777, 0o644);
});

test('only one certificate of the answer of egress is used', () => {
  const bundles = new TrustBundles(dir, hosts);
  bundles.trust(`${AUTHORITY}${makeCertificate('CA:TRUE')}`);
  assert.equal(readFileSync(fileIn(bundles.gatedDir), 'utf8'), `of the host\n\n${AUTHORITY}`);
});

test("a certificate that is not an authority's is refused, and the trusted one stays", () => {
  const bundles = new TrustBundles(dir, hosts);
  assert.throws(() => bundles.gatedDir, /not known yet/);
  bundles.trust(AUTHORITY);
  assert.throws(() => bundles.trust(makeCertificate('CA:FALSE')), /not one of an authority/);
  assert.throws(() => bundles.trust('-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----'));
  assert.equal(readFileSync(fileIn(bundles.gatedDir), 'utf8'), `of the host\n\n${AUTHORITY}`);
});

test('a new authority does not change the file that living sandboxes have', () => {
  const bundles = new TrustBundles(dir, hosts);
  bundles.trust(AUTHORITY);
  const { ino } = statSync(fileIn(bundles.gatedDir));
  bundles.trust(AUTHORITY);
  assert.equal(statSync(fileIn(bundles.gatedDir)).ino, ino);
  bundles.trust(makeCertificate('CA:TRUE'));
  assert.notEqual(statSync(fileIn(bundles.gatedDir)).ino, ino);
});

test('on a host without authorities, gated sandboxes trust egress only', () => {
  const bundles = new TrustBundles(dir, join(dir, 'none'));
  bundles.trust(AUTHORITY);
  assert.deepEqual(readdirSync(bundles.plainDir), []);
  assert.equal(readFileSync(fileIn(bundles.gatedDir), 'utf8').trim(), AUTHORITY.trim());
});

function makeCertificate(basicConstraints: string): string {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', '/dev/null'];
  const extension = ['-addext', `basicConstraints=critical,${basicConstraints}`];
  const request = ['req', '-x509', ...key, ...extension, '-subj', '/CN=egress', '-days', '2'];
  return execFileSync('openssl', request, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}
