import assert from 'node:assert/strict';
import { chmodSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { parseEnv } from 'node:util';
import { effectiveSettings } from '@cloche/settings';
import { needsRoot } from '@cloche/testkit/needs-root';
import { environmentFor } from './part-environment.ts';
import { PART_NAMES } from './parts.ts';
import { environmentFile, writeUnitEnvironments } from './unit-environments.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-units-'));
chmodSync(folder, 0o711);
after(() => rmSync(folder, { recursive: true }));

const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
const prepared = { accounts: { server: own, egress: own }, guestDir: '/var/cache/cloche/guest/x' };
const unitPlaces = {
  dataDir: join(folder, 'data'),
  runDir: join(folder, 'run'),
  environments: join(folder, 'units'),
};
const given = {
  CLOCHE_CONFIG_FILE: '/dev/null',
  CLOCHE_DATA_DIR: unitPlaces.dataDir,
  CLOCHE_PORT: '4711',
  CLOCHE_CACHE_DIR: join(folder, 'cache'),
};

describe('the environment files of the systemd units', () => {
  it('the environment files of the systemd units give each process what `npm start` would, and are readable only by root', {
    skip: needsRoot,
  }, async () => {
    const settings = effectiveSettings({ ...given, CLOCHE_BOOTSTRAP_API_KEY: 'twenty characters or more' });
    await writeUnitEnvironments(prepared, settings, unitPlaces);
    const cacheDir = join(folder, 'cache');
    const [compiledDir = ''] = globSync(join(cacheDir, 'compiled/*'));
    for (const part of PART_NAMES) {
      const file = join(unitPlaces.environments, `${part}.env`);
      const places = { ...unitPlaces, cacheDir, compiledDir };
      const expected = environmentFor(part, prepared, places, { host: '127.0.0.1', port: 4711 }, settings);
      assert.deepEqual({ ...parseEnv(readFileSync(file, 'utf8')) }, expected);
      assert.equal(statSync(file).mode & 0o777, 0o600);
    }
    const ofServer = readFileSync(join(unitPlaces.environments, 'server.env'), 'utf8');
    assert.match(ofServer, /^CLOCHE_BOOTSTRAP_API_KEY="twenty/m);
    assert.doesNotMatch(readFileSync(join(unitPlaces.environments, 'egress.env'), 'utf8'), /BOOTSTRAP/);
  });

  it('quote what means something to systemd, and have no line breaks', () => {
    assert.equal(environmentFile({ A: 'x "y" $z `q` \\' }), 'A="x \\"y\\" \\$z \\`q\\` \\\\"\n');
    assert.throws(() => environmentFile({ A: 'x\nB=y' }), /line break/);
  });

  it('the environment files of the systemd units are refused for folders that the units do not name', async () => {
    const settings = effectiveSettings({ ...given, CLOCHE_DATA_DIR: '/elsewhere' });
    await assert.rejects(writeUnitEnvironments(prepared, settings, unitPlaces), /the systemd units have/);
  });
});
