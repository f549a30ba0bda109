import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { nextBreaking, releaseVersion } from './version.ts';

/** Manifests that have a version of another thing. */
const OF_OTHERS = ['packages/shared/typebox/package.json', 'packages/shared/kysely/package.json'];

const OWN_VERSIONS = ['package-lock.json', 'CHANGELOG.md', 'scripts/release/version.test.ts'];
/** A package of Cloche with a version of one to three numbers after it; an address has four. */
const NAMED =
  /(?<![\w-])(ai-sdk-|computesdk-|langchain[-_]|inspect[-_]|@)?cloche(-sdk|\/[a-z-]+)?["']?[_=@<>~^"': -]{1,6}v?\d+\.\d+(\.\d+)?(?![\d.]*\.\d)/i;

const version = releaseVersion();
const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).trim().split('\n');
const textOf = (file: string) => readFileSync(file, 'utf8');

describe('the version of the release', () => {
  it('stands in the manifest at the root: no text names a version of Cloche but the changelog', () => {
    assert.match(version, /^\d+\.\d+\.\d+$/);
    const naming = files.filter((file) => !OWN_VERSIONS.includes(file) && NAMED.test(textOf(file)));
    assert.deepEqual(naming, []);
  });

  it('the version of the release is seen in file names, requirements and prose', () => {
    const texts = [
      'cloche_0.1.0_amd64.deb',
      'cloche-0.1.0-linux-x64.tar.gz',
      '../cloche-sdk-1.2.3.tgz',
      'cloche=0.1.0',
    ];
    const further = [
      '"cloche>=0.1,<0.2"',
      'ai-sdk-cloche-0.1.0.tgz',
      '"@cloche/sdk": "^0.1.0"',
      'Cloche 0.2',
      'cloche@1.0.0',
    ];
    for (const text of [...texts, ...further]) assert.match(text, NAMED);
    for (const text of ['postgres://cloche@127.0.0.1:1', "'cloche-caller': '192.0.2.1'", 'cloche-greeting==1.0'])
      assert.doesNotMatch(text, NAMED);
  });

  it('the version of the release is that of every package: a manifest has no version of its own', () => {
    const manifests = files.filter((file) => /(^|\/)package\.json$/.test(file) && file !== 'package.json');
    const own = manifests.filter((file) => !OF_OTHERS.includes(file) && 'version' in JSON.parse(textOf(file)));
    assert.deepEqual(own, []);
    const internal = manifests.flatMap((file) => {
      const { dependencies = {}, devDependencies = {} } = JSON.parse(textOf(file));
      const ranges = Object.entries<string>({ ...dependencies, ...devDependencies });
      return ranges.filter(([name, range]) => /cloche/.test(name) && range !== '*').map(([name]) => `${file}: ${name}`);
    });
    assert.deepEqual(internal, []);
  });

  it('the version of the release is that of every Python package: a build sets it', () => {
    for (const file of globSync('{packages/*/*,adapters/*}/pyproject.toml')) {
      const [project = ''] = /^\[project\]$.*?(?=^\[)/ms.exec(textOf(file)) ?? [];
      assert.match(project, /^(version = "0"|dynamic = \["version"\])$/m, file);
    }
  });

  it('the version of the release is that of the lock file, the SDK for Python, the command line and the newest entry of the changelog', async () => {
    const lock = JSON.parse(textOf('package-lock.json'));
    assert.deepEqual([lock.version, lock.packages[''].version], [version, version]);
    assert.match(
      textOf('packages/clients/sdk-python/src/cloche/_generated/version.py'),
      new RegExp(`^VERSION = "${version}"$`, 'm'),
    );
    const program = execFileSync(process.execPath, ['packages/clients/cli/bin/cloche.mjs', '--version']);
    assert.equal(`${program}`.trim(), version);
    const entries = [...textOf('CHANGELOG.md').matchAll(/^## \[(.+?)\]/gm)].map(([, name]) => name);
    assert.equal(
      entries.find((name) => name !== 'Unreleased'),
      version,
    );
  });
});

it('the page on releases names the version from which a release may break promises', () => {
  const next = Object.entries({
    '0.2.0': '0.3',
    '0.2.17': '0.3',
    '0.9.1': '0.10',
    '1.0.0': '2',
    '1.4.2': '2',
    '12.0.1': '13',
  });
  for (const [given, expected] of next) assert.equal(nextBreaking(given), expected);
});
