/** Signs by a key of its own, and verifies as users do: by gpg, by sha256sum and by apt. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writeAptIndex } from './apt-index.ts';
import { writeChecksums } from './checksums.ts';
import { packDebian } from './debian-package.ts';

const KEY = 'release@cloche.test';
const VERSION = '1.2.3';
const hasApt = spawnSync('apt-ftparchive', ['--version']).status === 0;

describe('a release', { skip: hasApt ? false : 'apt-utils is not installed here' }, () => {
  let folder: string;
  let out: string;
  const outside = process.env.GNUPGHOME;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-signing-'));
    out = join(folder, 'out');
    mkdirSync(out);
    process.env.GNUPGHOME = join(folder, 'gpg');
    mkdirSync(process.env.GNUPGHOME, { mode: 0o700 });
    const make = ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', KEY, 'ed25519', 'sign'];
    execFileSync('gpg', make, { stdio: 'ignore' });
    const tree = join(folder, 'cloche');
    mkdirSync(tree);
    const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
    await packDebian({ architecture, folder: tree, [Symbol.dispose]: () => {} }, out, { version: VERSION });
  });
  after(() => {
    execFileSync('gpgconf', ['--kill', 'all']);
    if (outside === undefined) delete process.env.GNUPGHOME;
    else process.env.GNUPGHOME = outside;
    rmSync(folder, { recursive: true });
  });

  /** Verifies as the guide says, with the public key alone. */
  const verify = () => {
    const keyring = join(folder, 'public.gpg');
    execFileSync('gpg', ['--yes', '--output', keyring, '--dearmor', join(out, 'cloche-archive-keyring.asc')]);
    return spawnSync('gpgv', ['--keyring', keyring, 'SHA256SUMS.asc', 'SHA256SUMS'], { cwd: out }).status;
  };

  /** Reads the index with apt, in folders of its own. */
  function updateApt() {
    const state = join(folder, 'apt');
    for (const name of ['lists/partial', 'cache/archives/partial', 'parts']) {
      mkdirSync(join(state, name), { recursive: true });
    }
    const source = join(state, 'cloche.list');
    writeFileSync(source, `deb [signed-by=${join(out, 'cloche-archive-keyring.asc')}] file:${out} ./\n`);
    const settings = {
      'Dir::Etc::SourceList': source,
      'Dir::Etc::SourceParts': join(state, 'parts'),
      'Dir::State::Lists': join(state, 'lists'),
      'Dir::Cache': join(state, 'cache'),
      'APT::Sandbox::User': 'root',
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    const { stdout, stderr, status } = spawnSync('apt-get', [...options, 'update'], { encoding: 'utf8' });
    const shown = spawnSync('apt-cache', [...options, 'policy', 'cloche'], { encoding: 'utf8' }).stdout;
    rmSync(state, { recursive: true });
    return { all: `${stdout}${stderr}`, status, shown };
  }

  it('without a key has checksums and an index, and no signature', () => {
    assert.deepEqual(writeChecksums(out, VERSION), [
      `cloche_${VERSION}_${process.arch === 'arm64' ? 'arm64' : 'amd64'}.deb`,
    ]);
    writeAptIndex(out);
    execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: out });
    for (const name of ['SHA256SUMS.asc', 'InRelease']) assert.ok(!existsSync(join(out, name)), name);
  });

  it('with a key is verified by its public key, until a byte changes', () => {
    writeChecksums(out, VERSION, KEY);
    assert.equal(verify(), 0);
    appendFileSync(join(out, 'SHA256SUMS'), '\n');
    assert.equal(verify(), 1);
  });

  it('a release is a source of apt, which refuses a changed index', () => {
    writeAptIndex(out, KEY);
    const good = updateApt();
    assert.equal(good.status, 0, good.all);
    assert.match(good.shown, new RegExp(`Candidate: ${VERSION}`), good.all);
    const file = join(out, 'InRelease');
    writeFileSync(file, readFileSync(file, 'utf8').replace('Label: Cloche', 'Label: Other'));
    assert.match(updateApt().all, /BADSIG|not signed|invalid/);
  });
});
