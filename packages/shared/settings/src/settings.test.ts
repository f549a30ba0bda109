import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Errors } from 'typebox/value';
import { isSetting, operatorSettings, problemWith, readSettings } from './read-settings.ts';
import type { Setting } from './setting.ts';
import { SETTINGS } from './settings.ts';

const table = Object.entries(SETTINGS) as [string, Setting][];
const ofHostd = { CLOCHE_GUEST_DIR: '/guest', CLOCHE_SERVICE_UID: '1', CLOCHE_SERVICE_GID: '2' };

describe('the table of settings', () => {
  it('the table of settings has defaults that are valid', () => {
    for (const [name, { value, default: standard }] of table) {
      if (standard !== undefined) assert.equal(Errors(value, standard).length, 0, name);
    }
  });

  it('the table of settings says for each setting what it is and which processes read it', () => {
    for (const [name, { summary, readBy, more }] of table) {
      assert.match(name, /^CLOCHE_[A-Z0-9_]+$/);
      assert.ok(summary !== '' && !summary.endsWith('.') && readBy.length > 0, name);
      assert.ok(more === undefined || more.endsWith('.'), name);
    }
  });

  it('the table of settings names the unit of each time and size', () => {
    for (const [name, { value }] of table) {
      assert.equal(value.unit, name.endsWith('_MS') ? 'ms' : name.endsWith('_MB') ? 'MiB' : undefined, name);
    }
  });

  it('the table of settings lets operators set no value that setup alone knows', () => {
    const names = operatorSettings().map(([name]) => name);
    assert.ok(names.includes('CLOCHE_PORT') && !names.includes('CLOCHE_SERVICE_UID'));
    assert.deepEqual(
      [isSetting('CLOCHE_SERVICE_UID'), isSetting('CLOCHE_PROT'), isSetting('constructor')],
      [true, false, false],
    );
  });
});

describe('readSettings', () => {
  it('readSettings reads the settings of one process, as numbers where they are numbers', () => {
    const env = { ...ofHostd, CLOCHE_POOL_SIZE: '3', CLOCHE_PORT: 'not read by hostd', CLOCHE_LOG_LEVEL: '' };
    const { values, problems } = readSettings('hostd', env, {});
    assert.deepEqual(problems, []);
    assert.deepEqual([values.CLOCHE_POOL_SIZE, values.CLOCHE_LOG_LEVEL, values.CLOCHE_SERVICE_UID], [3, 'info', 1]);
    assert.equal('CLOCHE_PORT' in values, false);
  });

  it('readSettings prefers the environment to defaults of the host, and these to none', () => {
    const defaults = { CLOCHE_SANDBOX_MAX_CPU: 4 };
    assert.equal(readSettings('server', {}, defaults).values.CLOCHE_SANDBOX_MAX_CPU, 4);
    const env = { CLOCHE_SANDBOX_MAX_CPU: '0.5' };
    assert.equal(readSettings('server', env, defaults).values.CLOCHE_SANDBOX_MAX_CPU, 0.5);
    assert.equal(readSettings('server', {}, {}).values.CLOCHE_SANDBOX_MAX_CPU, undefined);
  });

  it('readSettings names what is missing or wrong, without its value', () => {
    const env = { CLOCHE_GUEST_DIR: 'relative', CLOCHE_SERVICE_UID: 'secret' };
    assert.deepEqual(readSettings('hostd', env, {}).problems, [
      'CLOCHE_GUEST_DIR must be an absolute path',
      'CLOCHE_SERVICE_UID must be a whole number from 0 to 4294967294',
      'CLOCHE_SERVICE_GID must be set',
    ]);
  });
});

it('problemWith says what a value must be', () => {
  assert.equal(problemWith('CLOCHE_PORT', '4680'), undefined);
  for (const text of ['', ' ', 'x', '65536', '-1', '1.5']) {
    assert.equal(problemWith('CLOCHE_PORT', text), 'CLOCHE_PORT must be a whole number from 0 to 65535', text);
  }
});
