/** What runs before Cloche's own Node is installed, in the Node that a machine has. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { transformSync } from 'esbuild';

const STARTERS = ['scripts/start.mjs', 'scripts/test.mjs', 'scripts/bench.mjs', 'scripts/install.mjs'];

/** Returns the files that a module loads, itself included. */
function loadedBy(file: string): string[] {
  const imports = readFileSync(file, 'utf8').matchAll(/ from '(\.[^']+)'/g);
  return [file, ...[...imports].flatMap(([, path = '']) => loadedBy(join(dirname(file), path)))];
}

const files = [...new Set(STARTERS.flatMap(loadedBy))];

describe('the starters', () => {
  for (const file of files) {
    it(`${file} has no syntax that Node 12 does not parse, and imports no single function of \`fs\``, () => {
      const source = readFileSync(file, 'utf8');
      const forNode = (target: string) => transformSync(source, { target, format: 'esm' }).code;
      assert.equal(forNode('node12'), forNode('esnext'));
    });
  }
});

describe('a checkout without dependencies', { skip: process.getuid?.() !== 0 && 'needs root' }, () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-starters-'));
    for (const file of [...files, 'package.json', 'package-lock.json']) cpSync(file, join(folder, file));
  });
  after(() => rmSync(folder, { recursive: true }));

  const start = (...wrapper: string[]) => {
    const [program = '', ...args] = [...wrapper, process.execPath, join(folder, 'scripts/start.mjs')];
    const env = { ...process.env, CLOCHE_CACHE_DIR: join(folder, 'cache') };
    const begun = performance.now();
    const { stderr, status } = spawnSync(program, args, { encoding: 'utf8', env });
    return { stderr, status, ms: performance.now() - begun };
  };

  it('a checkout without dependencies is refused in a second where the machine has no network, before anything is downloaded', () => {
    const { stderr, status, ms } = start('unshare', '--net');
    assert.match(stderr, /has no network.*\nConnect it/);
    assert.equal(status, 1);
    const bare = execFileSync(process.execPath, ['-e', 'console.log(process.uptime())'], { encoding: 'utf8' });
    assert.ok(ms < 1_000 + 20_000 * Number(bare), `${ms} ms`);
  });

  it('a checkout without dependencies is refused where it cannot hold the dependencies', () => {
    const mount = `mount -t tmpfs -o size=1m tmpfs ${join(folder, 'node_modules')}`;
    execFileSync('mkdir', ['-p', join(folder, 'node_modules')]);
    const { stderr, status } = start(
      'unshare',
      '--mount',
      'sh',
      '-c',
      `${mount}; mount -t tmpfs -o size=8m tmpfs /var/tmp; CLOCHE_CACHE_DIR=/var/tmp/x exec "$@"`,
      'sh',
    );
    assert.match(stderr, /\/var\/tmp\/x has 0\.0 GiB of free disk space, and needs 4\.0 GiB/);
    assert.equal(status, 1);
  });
});
