import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { effectiveSettings, nearest, OPERATOR_SETTINGS, redacted, settingsFor } from './effective-settings.ts';

describe('settings', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-settings-'));
  });
  after(() => rm(folder, { recursive: true }));

  async function configFile(text: string): Promise<string> {
    const file = join(folder, 'cloche.env');
    await writeFile(file, text);
    return file;
  }
  const value = (env: NodeJS.ProcessEnv, wanted: string) => effectiveSettings(env).find(({ name }) => name === wanted);

  it('come from the environment, then from the file, then from the defaults', async () => {
    const CLOCHE_CONFIG_FILE = await configFile('CLOCHE_PORT=1000\nCLOCHE_HOST=0.0.0.0\n');
    const env = { CLOCHE_CONFIG_FILE, CLOCHE_PORT: '2000' };
    assert.equal(value(env, 'CLOCHE_PORT')?.value, '2000');
    assert.equal(value(env, 'CLOCHE_PORT')?.source, 'environment');
    assert.equal(value(env, 'CLOCHE_HOST')?.value, '0.0.0.0');
    assert.equal(value(env, 'CLOCHE_HOST')?.source, 'file');
    assert.equal(value(env, 'CLOCHE_LOG_LEVEL')?.source, 'default');
  });

  it('settings refuse a name that does not exist and suggest the nearest', () => {
    assert.throws(() => effectiveSettings({ CLOCHE_PROT: '1' }), /CLOCHE_PROT .*environment.*CLOCHE_PORT\?/);
  });

  it('settings refuse an unknown name in the file too, and a file that is not there', async () => {
    const CLOCHE_CONFIG_FILE = await configFile('CLOCHE_DATADIR=/x\n');
    assert.throws(() => effectiveSettings({ CLOCHE_CONFIG_FILE }), /CLOCHE_DATADIR .*cloche\.env.*CLOCHE_DATA_DIR\?/);
    assert.throws(
      () => effectiveSettings({ CLOCHE_CONFIG_FILE: join(folder, 'none') }),
      /CLOCHE_CONFIG_FILE: .*ENOENT/,
    );
  });

  it('settings refuse a file with a key that every user of the host can read', async () => {
    const CLOCHE_CONFIG_FILE = await configFile(`CLOCHE_BOOTSTRAP_API_KEY=${'x'.repeat(20)}\n`);
    for (const mode of [0o644, 0o604, 0o602]) {
      await chmod(CLOCHE_CONFIG_FILE, mode);
      assert.throws(() => effectiveSettings({ CLOCHE_CONFIG_FILE }), /CLOCHE_BOOTSTRAP_API_KEY; run `chmod 600 /);
    }
    for (const mode of [0o600, 0o640]) {
      await chmod(CLOCHE_CONFIG_FILE, mode);
      assert.equal(value({ CLOCHE_CONFIG_FILE }, 'CLOCHE_BOOTSTRAP_API_KEY')?.source, 'file');
    }
    await chmod(CLOCHE_CONFIG_FILE, 0o644);
    await configFile('CLOCHE_PORT=1000\n');
    assert.equal(value({ CLOCHE_CONFIG_FILE }, 'CLOCHE_PORT')?.value, '1000');
  });

  it('settings leave variables alone that are not Cloche’s', () => {
    assert.doesNotThrow(() => effectiveSettings({ PATH: '/bin', CLOCHER: 'x' }));
  });

  it('settings reach only the part that reads them', () => {
    const settings = effectiveSettings({ CLOCHE_BOOTSTRAP_API_KEY: 'x'.repeat(20) });
    assert.ok('CLOCHE_BOOTSTRAP_API_KEY' in settingsFor('server', settings));
    assert.ok(!('CLOCHE_BOOTSTRAP_API_KEY' in settingsFor('hostd', settings)));
  });

  it('settings are shown without their secrets', () => {
    const key = value({ CLOCHE_API_KEY: 'clk_secret' }, 'CLOCHE_API_KEY');
    assert.ok(key);
    assert.equal(redacted(key), '(redacted)');
  });

  it('settings are each documented and read by a program', () => {
    for (const { name, doc, readBy } of OPERATOR_SETTINGS) assert.ok(doc !== '' && readBy.length > 0, name);
  });

  it('nearest takes the fewest changes', () => {
    assert.equal(nearest('CLOCHE_HOTS', ['CLOCHE_PORT', 'CLOCHE_HOST', 'CLOCHE_RUNTIME']), 'CLOCHE_HOST');
  });
});
