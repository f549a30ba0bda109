/**
 * Installs the package of Debian in a fresh user land, as an administrator does: first result, upgrade, removal, purge.
 * No systemd runs there; `scripts/systemd-units.test.ts` verifies the units. Templates come from the cache of this machine.
 */
import assert from 'node:assert/strict';
import { closeSync, globSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { type BuiltPackages, builtPackages } from './support/built-packages.ts';
import { type Release, UserLand } from './support/user-land.ts';

const CACHE = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** A port that no service of a test has: theirs are in the range of outgoing connections. */
const PORT = '4698';
/** Whether to try what takes further minutes and differs little: another release, another architecture. */
const TRIES_ALL = process.env.CLOCHE_TEST_ALL_MACHINES === '1';
const skip = TRIES_ALL ? false : 'takes minutes: CLOCHE_TEST_ALL_MACHINES=1';
const MOUNTED = '/var/lib/cloche /var/cache/cloche /run/cloche/slots';

/** Prints a title for each step, so that a failure shows how far it came. */
const LIFE = `
set -e
export DEBIAN_FRONTEND=noninteractive
# A user land that is thrown away needs no file to be on the disk.
echo force-unsafe-io > /etc/dpkg/dpkg.cfg.d/test
serve() {
  # What the service before has written would look like an answer until the shell has emptied the file.
  : > /tmp/start.log
  cloche start > /tmp/start.log 2>&1 &
  service=$!
  while kill -0 $service 2>/dev/null && ! grep -q 'Cloche serves' /tmp/start.log; do sleep 0.2; done
  cat /tmp/start.log
}
echo '== install'
apt-get update -q > /dev/null
apt-get install -q --yes --no-install-recommends /packages/$OLDER
readlink /etc/systemd/system/multi-user.target.wants/cloche.target
echo CLOCHE_PORT=${PORT} >> /etc/cloche/cloche.env
echo '== first result'
serve
cloche run -c 'import pandas; print("first result", 6 * 7)'
cloche doctor --json > /tmp/doctor.json
sandbox=$(cloche sandbox create)
cloche run --sandbox $sandbox -c 'kept = 42'
echo '== upgrade'
apt-get install -q --yes --no-install-recommends /packages/$NEWER
cloche run --sandbox $sandbox -c 'print("served by the version before:", kept)'
kill -INT $service
wait $service
serve
cloche run --sandbox $sandbox -c 'print("after the upgrade:", kept)'
echo '== remove'
installation=$(cat /var/lib/cloche/installation-id)
echo "installation $installation"
apt-get remove -q --yes cloche
wait $service || true
ls /etc/cloche/cloche.env /var/lib/cloche/server /var/cache/cloche/templates
echo '== purge'
apt-get purge -q --yes cloche
echo '== left'
ls -l /proc/[0-9]*/exe 2>/dev/null | grep -E '/cloche/' || true
grep -E '^cloche' /etc/passwd /etc/group || true
grep -l "$installation" /run/cloche/slots/* 2>/dev/null || true
find /sys/fs/cgroup -name "*$installation*" || true
nft list tables | grep "$installation" || true
# The folders that the test mounts cannot be deleted, but emptied.
find / -xdev -path '*cloche*' ! -path '/packages*' ! -path '/tmp/*' $(printf '! -path %s ' $MOUNTED /run/cloche)
find /var/lib/cloche /var/cache/cloche -mindepth 1
echo '== end'
`;

for (const release of ['bookworm', 'trixie'] satisfies Release[]) {
  describe(`the package on a fresh Debian ${release}`, { skip: release !== 'bookworm' && skip }, () => {
    let packages: BuiltPackages;
    let land: UserLand;
    let cache: string;
    before(async () => {
      packages = await builtPackages('x64');
      const machines = join(CACHE, 'machines');
      cache = mkdtempSync(join(machines, `running-${process.pid}-`));
      // Links, because a purge deletes the folder, and because an overlay has no idmapped mounts.
      await execa('cp', ['--archive', '--link', join(CACHE, 'templates'), cache]);
      const shared = (name: string) => {
        const folder = join(machines, `${name}-${release}`);
        mkdirSync(folder, { recursive: true });
        return folder;
      };
      land = await UserLand.open(release, [], {
        [cache]: '/var/cache/cloche',
        [packages.folder]: '/packages',
        [shared('apt-archives')]: '/var/cache/apt/archives',
        [shared('apt-lists')]: '/var/lib/apt/lists',
      });
    });
    after(async () => {
      await land?.[Symbol.asyncDispose]();
      rmSync(cache, { recursive: true, force: true });
    });

    it('installs, has a first result, upgrades beside a sandbox, and leaves nothing', {
      timeout: 900_000,
    }, async (t) => {
      const begun = performance.now();
      const { all, exitCode } = await land.run(LIFE, { OLDER: packages.older, NEWER: packages.newer, MOUNTED });
      t.diagnostic(`${((performance.now() - begun) / 1000).toFixed(0)} s`);
      assert.equal(exitCode, 0, all);
      const { data } = JSON.parse(readFileSync(land.path('tmp/doctor.json'), 'utf8'));
      assert.deepEqual(
        data.filter(({ status }: { status: string }) => status === 'missing'),
        [],
      );
      assert.match(all, / \| cloche run -$/m, all);
      assert.match(all, /^first result 42$/m, all);
      assert.match(all, /^served by the version before: 42$/m, all);
      assert.match(all, /^after the upgrade: 42$/m, all);
      const [, left] = /^== left\n(.*)^== end$/ms.exec(all) ?? [];
      assert.equal(left, '', all);
    });
  });
}

/** Numbers of processors in the head of a program, by Node's names. */
const MACHINES = { x64: 62, arm64: 183 } as const;

for (const architecture of ['x64', 'arm64'] as const) {
  const name = `the package for ${architecture} has Node, and programs of no other processor`;
  it(name, { skip: architecture !== 'x64' && skip }, async () => {
    const { folder, older } = await builtPackages(architecture);
    const root = mkdtempSync(join(tmpdir(), 'cloche-content-'));
    try {
      await execa('dpkg-deb', ['--extract', join(folder, older), root]);
      const files = globSync('**', { cwd: root, withFileTypes: true }).filter((entry) => entry.isFile());
      const found = files.flatMap(({ parentPath, name }) => {
        const machine = machineOf(join(parentPath, name));
        return machine === undefined ? [] : [{ name, machine }];
      });
      for (const needed of ['node', 'esbuild', 'koffi.node'])
        assert.ok(
          found.some((each) => each.name === needed),
          needed,
        );
      assert.deepEqual(
        found.filter(({ machine }) => machine !== MACHINES[architecture]),
        [],
      );
    } finally {
      rmSync(root, { recursive: true });
    }
  });
}

/** Returns the number of the processor that a program or a library is for; undefined for other files. */
function machineOf(file: string): number | undefined {
  const head = Buffer.alloc(20);
  const descriptor = openSync(file, 'r');
  readSync(descriptor, head, 0, head.length, 0);
  closeSync(descriptor);
  return head.toString('latin1', 0, 4) === '\x7fELF' ? head.readUInt16LE(18) : undefined;
}
