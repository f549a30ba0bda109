import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writeChecksums } from '../distribution/checksums.ts';
import { checkFiles } from './check-files.ts';
import { releaseFiles, templateArchives } from './release-files.ts';

const VERSION = '1.2.3';
const KEY = 'release@cloche.test';
const NAMES = releaseFiles(VERSION);
const hasGpg = spawnSync('gpg', ['--version']).status === 0;

/** Faults of release files between the build and the publication, and the message of the check for each. */
const FAULTS: readonly { title: string; change: (out: string) => void; says: RegExp }[] = [
  {
    title: 'a package for Debian that is missing',
    change: (out) => rmSync(join(out, `cloche_${VERSION}_arm64.deb`)),
    says: /cloche_1\.2\.3_arm64\.deb is missing/,
  },
  {
    title: 'a wheel that is missing',
    change: (out) => rmSync(join(out, `cloche-${VERSION}-py3-none-any.whl`)),
    says: /whl is missing/,
  },
  {
    title: 'a package of npm that was packed again after the checksums',
    change: (out) => appendFileSync(join(out, `cloche-sdk-${VERSION}.tgz`), '\n'),
    says: /cloche-sdk-1\.2\.3\.tgz: FAILED/,
  },
  {
    title: 'an empty file',
    change: (out) => writeFileSync(join(out, `cloche-${VERSION}-linux-x64.cdx.json`), ''),
    says: /x64\.cdx\.json: FAILED/,
  },
  {
    title: 'checksums that do not list a file',
    change(out) {
      const kept = join(out, '..', 'kept');
      cpSync(join(out, `cloche-${VERSION}.tgz`), kept);
      rmSync(join(out, `cloche-${VERSION}.tgz`));
      writeChecksums(out, VERSION, KEY);
      cpSync(kept, join(out, `cloche-${VERSION}.tgz`));
    },
    says: /SHA256SUMS does not list cloche-1\.2\.3\.tgz/,
  },
  {
    title: 'checksums of another version',
    change: (out) => void writeChecksums(out, '1.2.2', KEY),
    says: /does not list/,
  },
  { title: 'no checksums', change: (out) => rmSync(join(out, 'SHA256SUMS')), says: /SHA256SUMS is missing/ },
  {
    title: 'a line of the checksums that is none',
    change: (out) => appendFileSync(join(out, 'SHA256SUMS'), 'x  y\n'),
    says: /SHA256SUMS/,
  },
  {
    title: 'checksums without a signature',
    change: (out) => void writeChecksums(out, VERSION),
    says: /SHA256SUMS\.asc is missing/,
  },
  {
    title: 'a signature of other checksums',
    change(out) {
      copyFileSync(join(out, 'SHA256SUMS.asc'), join(out, 'other.asc'));
      appendFileSync(join(out, 'SHA256SUMS'), '\n');
    },
    says: /no signature of SHA256SUMS/,
  },
  {
    title: 'a signature by another key than the one beside it',
    change(out) {
      makeKey('other@cloche.test');
      const exported = execFileSync('gpg', ['--batch', '--armor', '--export', 'other@cloche.test']);
      writeFileSync(join(out, 'cloche-archive-keyring.asc'), exported);
    },
    says: /no signature of SHA256SUMS/,
  },
  {
    title: 'no public key',
    change: (out) => rmSync(join(out, 'cloche-archive-keyring.asc')),
    says: /keyring\.asc is missing/,
  },
];

describe('the check of the files of a release', { skip: hasGpg ? false : 'gpg is not installed here' }, () => {
  let folder: string;
  let whole: string;
  const outside = process.env.GNUPGHOME;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-check-files-'));
    process.env.GNUPGHOME = join(folder, 'gpg');
    mkdirSync(process.env.GNUPGHOME, { mode: 0o700 });
    makeKey(KEY);
    whole = join(folder, 'whole');
    mkdirSync(whole);
    for (const name of NAMES) writeFileSync(join(whole, name), name);
    writeFileSync(join(whole, `cloche-templates-${VERSION}.tar`), 'templates');
    assert.equal(writeChecksums(whole, VERSION, KEY).length, NAMES.length + 1);
  });
  after(() => {
    execFileSync('gpgconf', ['--kill', 'all']);
    if (outside === undefined) delete process.env.GNUPGHOME;
    else process.env.GNUPGHOME = outside;
    rmSync(folder, { recursive: true });
  });

  it('the check of the files of a release takes a whole release, signed or not', () => {
    const names = [...NAMES, ...templateArchives(whole, VERSION)];
    checkFiles(whole, names, true);
    const unsigned = join(folder, 'unsigned');
    cpSync(whole, unsigned, { recursive: true });
    writeChecksums(unsigned, VERSION);
    checkFiles(unsigned, names, false);
  });

  it('the check of the files of a release refuses the signature of an earlier release beside unsigned files', () => {
    assert.throws(() => checkFiles(whole, NAMES, false), /is of an earlier release/);
  });

  for (const { title, change, says } of FAULTS) {
    it(`the check of the files of a release refuses ${title}`, () => {
      const out = join(folder, 'changed/out');
      cpSync(whole, out, { recursive: true });
      try {
        change(out);
        assert.throws(() => checkFiles(out, NAMES, true), says);
      } finally {
        rmSync(join(folder, 'changed'), { recursive: true });
      }
    });
  }
});

function makeKey(name: string): void {
  const make = ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', name, 'ed25519', 'sign'];
  execFileSync('gpg', make, { stdio: 'ignore' });
}
