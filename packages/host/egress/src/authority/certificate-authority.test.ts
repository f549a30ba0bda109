import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { Host } from '../policy/host-name.ts';
import { PacedQueue } from '../shares/paced-queue.ts';
import { CertificateAuthority } from './certificate-authority.ts';
import { LeafContexts, type LeafOwner } from './leaf-contexts.ts';

const EXAMPLE: Host = { kind: 'name', name: 'a.example.com' };
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cloche-authority-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

test('an authority lasts, and its key is readable to its owner alone', async () => {
  const first = await CertificateAuthority.open(dir);
  const second = await CertificateAuthority.open(dir);
  assert.equal(first.certificate, second.certificate);
  assert.deepEqual(readdirSync(dir), ['authority.pem']);
  assert.equal(statSync(join(dir, 'authority.pem')).mode & 0o777, 0o600);
  assert.doesNotMatch(first.certificate, /PRIVATE/);
});

test('another host gets another authority', async () => {
  const other = mkdtempSync(join(tmpdir(), 'cloche-authority-'));
  const [ours, theirs] = await Promise.all([CertificateAuthority.open(dir), CertificateAuthority.open(other)]);
  rmSync(other, { recursive: true });
  assert.notEqual(new X509Certificate(ours.certificate).subject, new X509Certificate(theirs.certificate).subject);
  assert.notEqual(ours.certificate, theirs.certificate);
});

test('a key that does not belong to its certificate is replaced along with it', async () => {
  const first = await CertificateAuthority.open(dir);
  const other = mkdtempSync(join(tmpdir(), 'cloche-authority-'));
  await CertificateAuthority.open(other);
  const [, foreignKey = ''] = readFileSync(join(other, 'authority.pem'), 'utf8').split(/(?=-----BEGIN PRIVATE)/);
  rmSync(other, { recursive: true });
  writeFileSync(join(dir, 'authority.pem'), `${first.certificate}\n${foreignKey}`);
  const mended = await CertificateAuthority.open(dir);
  assert.notEqual(mended.certificate, first.certificate);
});

test('a leaf is for its host alone, and no authority', async () => {
  const authority = await CertificateAuthority.open(dir);
  const root = new X509Certificate(authority.certificate);
  const leaf = new X509Certificate((await authority.issue(EXAMPLE)).certificate);
  assert.ok(root.ca && !leaf.ca);
  assert.ok(leaf.verify(root.publicKey) && leaf.checkIssued(root));
  assert.equal(leaf.checkHost('a.example.com'), 'a.example.com');
  assert.equal(leaf.checkHost('b.example.com'), undefined);
  const literal = new X509Certificate((await authority.issue({ kind: 'ipv4', address: '192.0.2.1' })).certificate);
  assert.equal(literal.checkIP('192.0.2.1'), '192.0.2.1');
});

test('a name of the greatest length gets a certificate', async () => {
  const name = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`;
  const authority = await CertificateAuthority.open(dir);
  const leaf = new X509Certificate((await authority.issue({ kind: 'name', name })).certificate);
  assert.equal(leaf.checkHost(name), name);
});

test('a leaf is made once, and again when others took its place', async () => {
  const leaves = new LeafContexts(await CertificateAuthority.open(dir), 2);
  const own = leafOwner('198.18.0.2');
  const [first, atOnce] = await Promise.all([leaves.get(EXAMPLE, own), leaves.get(EXAMPLE, own)]);
  assert.equal(first, atOnce);
  for (const name of ['b.example.com', 'c.example.com']) await leaves.get({ kind: 'name', name }, own);
  assert.notEqual(await leaves.get(EXAMPLE, own), first);
});

test('a sandbox that asks for many names has its own leaves made anew, not those of others', async () => {
  const leaves = new LeafContexts(await CertificateAuthority.open(dir), 8);
  const neighbour = leafOwner('198.18.0.2');
  const first = await leaves.get(EXAMPLE, neighbour);
  const greedy = leafOwner('198.18.0.6');
  for (let index = 0; index < 30; index += 1) await leaves.get({ kind: 'name', name: `n${index}.example` }, greedy);
  assert.equal(await leaves.get(EXAMPLE, neighbour), first);
  // A context made for another sandbox is shared.
  assert.equal(await leaves.get(EXAMPLE, greedy), first);
});

function leafOwner(address: string): LeafOwner {
  return { address, signatures: new PacedQueue({ concurrency: 1, startsPerTurn: 1 }) };
}
