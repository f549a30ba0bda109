/**
 * Compares the units of deploy/systemd with the programs that they start, and verifies them with systemd where it is
 * installed.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { affordableFraction } from '../packages/host/egress/src/shares/egress-shares.ts';
import { SERVICE_USERS } from '../packages/host/setup/src/host/service-account.ts';
import { BALANCER_PROGRAM } from '../packages/host/setup/src/installation/balancer-config.ts';
import { CHECKOUT, PART_NAMES, type PartName, PROGRAMS } from '../packages/host/setup/src/installation/parts.ts';
import { UNIT_PATHS } from '../packages/host/setup/src/installation/unit-environments.ts';
import { dataPaths, runPaths } from '../packages/shared/layout/src/index.ts';
import { egressPaths } from '../packages/shared/protocol/src/index.ts';
import { SETTINGS } from '../packages/shared/settings/src/index.ts';

const INSTALLED_AT = '/opt/cloche';
const files = globSync('deploy/systemd/*').sort();
const textOf = (unit: string) => readFileSync(`deploy/systemd/${unit}`, 'utf8');

/** Returns the words of all values of a key, in the order of their lines. */
function words(part: PartName | 'prepare', key: string): string[] {
  const text = textOf(`cloche-${part}.service`);
  return [...text.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].flatMap(([, value = '']) => value.split(' '));
}

const run = runPaths(UNIT_PATHS.runDir);
const data = dataPaths(UNIT_PATHS.dataDir);
const egress = egressPaths(UNIT_PATHS.runDir, UNIT_PATHS.dataDir);
const FOLDERS: Record<PartName, { run: string[]; state: string[] }> = {
  // At each start, systemd would give all files in a RuntimeDirectory to root: the server could reach no sandbox.
  hostd: { run: [], state: [data.hostdDir] },
  egress: { run: [egress.controlDir], state: [egress.authorityDir] },
  server: { run: [run.serverDir], state: [data.serverDir] },
};

describe('the systemd units', () => {
  for (const part of PART_NAMES) {
    it(`the systemd units start ${part} as npm start does: program, environment and folders`, () => {
      assert.equal(words(part, 'ExecStart').at(-1), PROGRAMS[part]);
      assert.deepEqual(words(part, 'EnvironmentFile'), [join(UNIT_PATHS.environments, `${part}.env`)]);
      assert.deepEqual(
        words(part, 'RuntimeDirectory').map((name) => join('/run', name)),
        FOLDERS[part].run,
      );
      assert.deepEqual(
        words(part, 'StateDirectory').map((name) => join('/var/lib', name)),
        FOLDERS[part].state,
      );
      assert.deepEqual(words(part, 'RuntimeDirectoryPreserve'), FOLDERS[part].run.length > 0 ? ['yes'] : []);
    });
  }

  for (const part of ['server', 'egress'] as const) {
    it(`the systemd units run ${part} as a user of its own without privilege`, () => {
      assert.deepEqual([words(part, 'User'), words(part, 'Group')], [[SERVICE_USERS[part]], [SERVICE_USERS[part]]]);
      assert.deepEqual(words(part, 'CapabilityBoundingSet'), ['']);
      assert.deepEqual(words(part, 'NoNewPrivileges'), ['yes']);
      assert.deepEqual(words(part, 'ProtectSystem'), ['strict']);
    });

    it(`bound the memory of ${part}`, () => {
      assert.match(words(part, 'MemoryMax').join(), /^\d+[G%]$/);
    });
  }

  it('the systemd units hide nothing of /proc from hostd: the kernel would allow no new /proc in the user namespace of a sandbox', () => {
    for (const key of ['ProtectKernelLogs', 'ProtectKernelTunables', 'ProtectProc', 'ProcSubset', 'ProtectHostname'])
      assert.deepEqual(words('hostd', key), [], key);
    const paths = ['InaccessiblePaths', 'ReadOnlyPaths', 'TemporaryFileSystem', 'BindPaths', 'BindReadOnlyPaths'];
    assert.deepEqual(
      paths.flatMap((key) => words('hostd', key)).filter((path) => path.includes('/proc')),
      [],
    );
    assert.equal(words('hostd', 'CapabilityBoundingSet').includes('CAP_SYSLOG'), false);
    assert.ok(words('hostd', 'SystemCallFilter').includes('syslog'));
  });

  it('the systemd units let the server make the socket of secrets in the folder that setup gives it', () => {
    assert.deepEqual(words('server', 'ReadWritePaths'), [run.secretsDir]);
  });

  it('the systemd units start one of several servers as the only one, but for its name', () => {
    const name = 'Environment=CLOCHE_SERVER_NAME=%i\n';
    const several = textOf('cloche-server@.service');
    assert.ok(several.includes(name));
    const withoutDescription = (text: string) => text.replace(/^Description=.*$/m, '');
    assert.equal(withoutDescription(several.replace(name, '')), withoutDescription(textOf('cloche-server.service')));
  });

  it('the systemd units start the load balancer as npm start does, with the user of the servers', () => {
    const text = textOf('cloche-balancer.service');
    const entryOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1];
    assert.equal(entryOf('ExecStart'), `${BALANCER_PROGRAM} -db -f ${join(UNIT_PATHS.runDir, 'balancer.cfg')}`);
    assert.deepEqual([entryOf('User'), entryOf('Group')], [SERVICE_USERS.server, SERVICE_USERS.server]);
    assert.equal(entryOf('RuntimeDirectory'), 'cloche/main/server');
    assert.equal(entryOf('ReadWritePaths'), run.secretsDir);
    assert.deepEqual([entryOf('CapabilityBoundingSet'), entryOf('NoNewPrivileges')], ['', 'yes']);
  });

  it('the systemd units let egress open all that it shares out', () => {
    assert.equal(affordableFraction(Number(words('egress', 'LimitNOFILE')[0])), 1);
  });

  it('the systemd units leave sandboxes alone when hostd ends, and start each part again', () => {
    assert.deepEqual([words('hostd', 'KillMode'), words('hostd', 'Delegate')[0]], [['process'], 'cpu']);
    for (const part of PART_NAMES) assert.deepEqual(words(part, 'Restart'), ['always'], part);
  });

  it('serve during an upgrade until the host is prepared, and restart only what runs', () => {
    assert.deepEqual(words('prepare', 'ExecReload'), words('prepare', 'ExecStart'));
    const [prepare, ...restarts] = [...textOf('cloche-upgrade.service').matchAll(/^ExecStart=(.*)$/gm)].map(
      ([, line]) => line,
    );
    assert.equal(prepare, 'systemctl reload-or-restart cloche-prepare.service');
    const units = restarts.flatMap((line = '') => line.split(' ').filter((word) => word.endsWith('.service')));
    assert.ok(restarts.every((line) => line?.startsWith('systemctl try-restart ')));
    const services = files.map((file) => basename(file)).filter((name) => name.endsWith('.service'));
    assert.deepEqual(
      units.map((name) => name.replace('@*', '@')).sort(),
      services.filter((name) => !/-(prepare|upgrade)\./.test(name)).sort(),
    );
  });

  it('the systemd units name no setting that does not exist', () => {
    const known = Object.keys(SETTINGS);
    const named = files.flatMap((file) => readFileSync(file, 'utf8').match(/CLOCHE_\w+/g) ?? []);
    assert.ok(named.length > 0);
    assert.deepEqual(
      named.filter((name) => !known.includes(name)),
      [],
    );
    assert.deepEqual(words('prepare', 'Environment'), [`CLOCHE_RUN_DIR=${UNIT_PATHS.runDir}`]);
  });
});

describe('systemd', () => {
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
  const skip = hasSystemd ? false : 'systemd-analyze is not installed here';
  const folder = mkdtempSync(join(tmpdir(), 'cloche-units-'));
  after(() => rmSync(folder, { recursive: true }));
  for (const file of files) {
    writeFileSync(join(folder, basename(file)), installedHere(readFileSync(file, 'utf8')));
  }
  function installedHere(text: string): string {
    // The load balancer is installed only where there are several servers.
    return text.replaceAll(INSTALLED_AT, CHECKOUT).replaceAll(BALANCER_PROGRAM, '/usr/bin/true');
  }
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8', cwd: folder });

  it('systemd finds no fault in the units', { skip }, () => {
    const { status, stderr } = analyze('verify', '--man=no', ...files.map((file) => `./${basename(file)}`));
    assert.equal(stderr, '');
    assert.equal(status, 0);
  });

  for (const [part, most] of [
    ['server', 2],
    ['egress', 2],
    ['balancer', 2],
    ['hostd', 6.5],
  ] as const) {
    it(`judges ${part} to be exposed by at most ${most} of 10`, { skip }, () => {
      const unit = `./cloche-${part}.service`;
      const { stdout } = analyze('security', '--offline=true', '--no-pager', unit);
      const found = Number(/exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]);
      assert.ok(found <= most, stdout);
    });
  }
});
