import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeApiKey } from '../platform/keys/api-key-format.ts';
import { ConfigError, defaultMaxPids, readConfig } from './config.ts';

const base = { CLOCHE_RUN_DIR: '/run/cloche/test' };
const problem = (env: Record<string, string>, message: RegExp) =>
  assert.throws(
    () => readConfig({ ...base, ...env }),
    (error) => error instanceof ConfigError && message.test(error.message),
  );

describe('readConfig', () => {
  it('readConfig has a default for everything but where sockets lie', () => {
    const config = readConfig(base);
    assert.deepEqual(
      [config.port, config.host, config.databaseUrl, config.runDir, config.bootstrapApiKey],
      [4680, '127.0.0.1', 'sqlite:/var/lib/cloche/server/cloche.db', '/run/cloche/test', undefined],
    );
    assert.equal(config.quotas.liveSandboxes, null);
    assert.ok(Object.isFrozen(config) && Object.isFrozen(config.sandboxes.maxResources));
    assert.throws(() => readConfig({ CLOCHE_DATA_DIR: '/nonexistent' }), /CLOCHE_RUN_DIR must be set/);
  });

  it('readConfig lets no sandbox have more than a sixteenth of the host’s process ids by default', () => {
    assert.equal(defaultMaxPids(4_194_304), 8192);
    assert.equal(defaultMaxPids(32_768), 2048);
  });

  it('readConfig takes what is set, and an empty variable for one that is not', () => {
    const env = { CLOCHE_PORT: '0', CLOCHE_SANDBOX_DEFAULT_CPU: '0.5', CLOCHE_MAX_SANDBOXES: '3', CLOCHE_HOST: '' };
    const config = readConfig({ ...base, ...env });
    assert.deepEqual(
      [config.port, config.sandboxes.defaultResources.cpu, config.quotas.liveSandboxes, config.host],
      [0, 0.5, 3, '127.0.0.1'],
    );
  });

  it('readConfig names every variable that is wrong, and what it must be', () => {
    problem(
      { CLOCHE_PORT: 'x', CLOCHE_DATA_DIR: 'relative' },
      /CLOCHE_PORT must be a whole.*\n.*DATA_DIR must be an abs/s,
    );
    problem({ CLOCHE_PORT: '65536' }, /CLOCHE_PORT/);
    problem({ CLOCHE_PORT: ' ' }, /CLOCHE_PORT/);
    problem({ CLOCHE_LOG_LEVEL: 'loud' }, /trace, debug/);
    problem({ CLOCHE_RUNTIME: 'docker' }, /CLOCHE_RUNTIME must be hostd/);
    problem({ CLOCHE_SANDBOX_DEFAULT_PIDS: '9000' }, /DEFAULT_PIDS must not be more than CLOCHE_SANDBOX_MAX_PIDS/);
  });

  it('readConfig never repeats a key that it refuses', () => {
    problem(
      { CLOCHE_BOOTSTRAP_API_KEY: 'short' },
      /^CLOCHE_BOOTSTRAP_API_KEY must be 20 or more printable ASCII characters; `openssl rand -hex 32` generates a suitable key$/,
    );
    const mistyped = `clk_${'a'.repeat(46)}`;
    problem(
      { CLOCHE_BOOTSTRAP_API_KEY: mistyped },
      /^CLOCHE_BOOTSTRAP_API_KEY begins with clk_ but its checksum is wrong; copy(?!.*aaaa)/,
    );
    const { key } = makeApiKey();
    assert.equal(readConfig({ ...base, CLOCHE_BOOTSTRAP_API_KEY: key }).bootstrapApiKey, key);
  });

  it('readConfig refuses a name that no part of an installation knows, and leaves those of other parts alone', () => {
    problem({ CLOCHE_PROT: '1' }, /CLOCHE_PROT is not a setting/);
    readConfig({ ...base, CLOCHE_OCI_RUNTIME: 'crun', CLOCHE_DISK_OVERCOMMIT: '3', PATH: '/bin' });
  });
});
