import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation } from '../../testing/installation.ts';
import { keptFiles, ok, parkedOf, refusedBy, sandboxOf } from '../../testing/kept-sandbox.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';

const RUNTIMES = ['crun', 'runc', 'runsc'];

/** Writes files of one kind each. */
const FILES = [
  'mkdir /data; echo hello > /data/file; echo more >> /etc/passwd',
  'rm /etc/debian_version; rm -r /usr/share/doc',
  'mkdir /o; touch /o/a /o/b; chown 1000:1000 /o/a; chown 65535:7 /o/b; chmod 0641 /o/a; chmod 1777 /o; chmod 4755 /o/b',
  'touch -d "2001-02-03 04:05:06.123456789 UTC" /data/old',
  'echo one > /data/h1; ln /data/h1 /data/h2; ln -s ../../../etc/shadow /data/link; mkfifo /data/pipe',
  'truncate -s 40M /data/hole; echo end >> /data/hole',
  'touch "/data/$(printf \'n\\377\\376\')"; mkdir -p /data/d/d/d/d/d/d/d/d/d; head -c 3M /dev/urandom > /data/big',
  `python3 -c "import os; os.setxattr('/data/file', 'user.a', b'b')"`,
  'echo "10.1.2.3 mine" >> /etc/hosts',
].join('\n');

/**
 * Prints what a sandbox can see of its files, in an order that does not change. gVisor notes times late, so with it only a
 * time that was set counts, and it keeps pipes in its memory. Numbers of links of folders are of the overlay.
 */
const showOf = (ociRuntime: string) => `python3 -c "
import hashlib, os, stat
for top in ('/data', '/o', '/etc', '/usr/share'):
    for folder, folders, names in os.walk(os.fsencode(top)):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for path in sorted([folder] + [os.path.join(folder, name) for name in names + links]):
            of = os.lstat(path)
            if ${ociRuntime === 'runsc' ? 'stat.S_ISFIFO(of.st_mode)' : 'False'}: continue
            seen = [path, oct(of.st_mode), of.st_uid, of.st_gid, stat.S_ISDIR(of.st_mode) or of.st_nlink]
            if ${ociRuntime === 'runsc' ? `path == b'/data/old'` : 'True'}: seen.append(of.st_mtime_ns)
            if stat.S_ISLNK(of.st_mode): seen.append(os.readlink(path))
            else: seen.append([(name, os.getxattr(path, name)) for name in os.listxattr(path)])
            if stat.S_ISREG(of.st_mode): seen.append(of.st_size)
            if path.startswith((b'/data', b'/o', b'/etc/h')) and stat.S_ISREG(of.st_mode):
                seen.append(hashlib.sha256(open(path, 'rb').read()).hexdigest())
            print(seen)
"`;

describe('a kept disk', () => {
  for (const ociRuntime of RUNTIMES) {
    test(`a kept disk of ${ociRuntime} has every file as it was, over ten ends and launches in other slots`, async () => {
      using installation = makeInstallation({ CLOCHE_OCI_RUNTIME: ociRuntime });
      const { config } = installation;
      await using hostd = await HostdProcess.start(installation);
      const sandbox = sandboxOf(installation);
      const other = sandboxOf(installation, 'sbx_other');
      const show = showOf(ociRuntime);
      ok(await sandbox.launch(hostd, 1));
      await sandbox.inside(FILES);
      const before = await sandbox.inside(show);
      const cycles = ociRuntime === 'crun' ? 10 : 3;
      for (let generation = 1; generation <= cycles; generation += 1) {
        await sandbox.inside(`echo ${generation} >> /opt/generations; echo x > /dev/shm/lost`);
        const { status, body } = await sandbox.park(hostd, generation);
        assert.equal(status, 200, JSON.stringify(body));
        assert.equal(typeof body.use?.cpuMs, 'number');
        if (generation === 1) assert.deepEqual(instanceLeftovers(config), []);
        assert.deepEqual(await parkedOf(hostd), [body.disk]);
        // Takes the slot that the sandbox had.
        if (generation === 1) ok(await other.launch(hostd, 1));
        ok(await sandbox.launch(hostd, generation + 1, generation));
        assert.equal(await sandbox.inside('test -e /dev/shm/lost && echo there; true'), '');
      }
      const after = await sandbox.inside(show);
      assert.deepEqual(new Set(after.split('\n')).symmetricDifference(new Set(before.split('\n'))), new Set());
      assert.equal((await sandbox.inside('cat /opt/generations')).trim().split('\n').length, cycles);
      await sandbox.remove(hostd, cycles);
      await sandbox.stop(hostd, cycles + 1);
      await other.stop(hostd, 1);
      assert.deepEqual(keptFiles(config), []);
      await hostd.close();
      assert.deepEqual(hostLeftovers(config), []);
    });
  }

  test('a kept disk of a running or frozen instance has what was written before, after a kill of instance and hostd', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const sandbox = sandboxOf(installation);
    await using before = await HostdProcess.start(installation);
    ok(await sandbox.launch(before, 1));
    await sandbox.inside('echo first > /opt/file');
    ok(await sandbox.keep(before, 1));
    // The name goes and comes back, as at a second pause.
    await sandbox.remove(before, 1);
    assert.deepEqual(await parkedOf(before), []);
    ok(await before.call('POST', '/instances/sbx_a/1/freeze'));
    const kept = await sandbox.keep(before, 1);
    ok(kept);
    assert.equal((await before.list())[0]?.isFrozen, true);
    await before.call('POST', '/instances/sbx_a/1/thaw');
    await sandbox.inside('echo second >> /opt/file');
    ok(await sandbox.keep(before, 1));
    process.kill(initPid(config, 'sbx_a'), 'SIGKILL');
    await before.kill();

    await using after = await HostdProcess.start(installation);
    assert.deepEqual(instanceLeftovers(config), []);
    assert.equal((await parkedOf(after))[0].generation, 1);
    ok(await sandbox.launch(after, 2, 1));
    assert.equal(await sandbox.inside('cat /opt/file'), 'first\nsecond\n');
    // The disk has two names now, and stays in use without the older.
    ok(await sandbox.keep(after, 2));
    assert.deepEqual(
      (await parkedOf(after)).map(({ generation }: { generation: number }) => generation),
      [2],
    );
    await sandbox.remove(after, 2);
    ok(await sandbox.park(after, 2));
    ok(await sandbox.launch(after, 3, 2));
    assert.equal(await sandbox.inside('cat /opt/file'), 'first\nsecond\n');
  });

  test('a kept disk is given to one instance at a time, of the sandbox and of a later generation', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const sandbox = sandboxOf(installation);
    await using hostd = await HostdProcess.start(installation);
    assert.equal((await hostd.call('GET', '/health')).body.keepsDisks, true);
    refusedBy(await sandbox.park(hostd, 1), 404, 'instance_not_found');
    refusedBy(await sandbox.keep(hostd, 1), 404, 'instance_not_found');
    refusedBy(await sandbox.launch(hostd, 2, 1), 404, 'disk_not_found');
    ok(await sandbox.launch(hostd, 1));
    ok(await sandbox.keep(hostd, 1));
    refusedBy(await sandbox.launch(hostd, 2, 1), 409, 'disk_in_use');
    const parked = await sandbox.park(hostd, 1);
    ok(parked);
    assert.deepEqual(
      (await sandbox.park(hostd, 1)).body.disk,
      parked.body.disk,
      'once more, after the answer was lost',
    );
    refusedBy(await sandbox.launch(hostd, 1, 1), 400, 'bad_request');
    refusedBy(await sandbox.launch(hostd, 2, 1, { diskBytes: 128 * MEBIBYTE }), 400, 'bad_request');
    refusedBy(await sandboxOf(installation, 'sbx_b').launch(hostd, 2, 1), 404, 'disk_not_found');
    const answers = await Promise.all([2, 3, 4].map((generation) => sandbox.launch(hostd, generation, 1)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409]);
    const generation = answers.findIndex(({ status }) => status === 200) + 2;
    refusedBy(await sandbox.launch(hostd, generation + 1, 1), 409, 'disk_in_use');
    // One that has died is removed first, without a sweep.
    const init = initPid(config, 'sbx_a');
    process.kill(init, 'SIGKILL');
    await eventually(() => !existsSync(`/proc/${init}`), { because: 'the instance has died' });
    ok(await sandbox.launch(hostd, generation + 1, 1));
    await sandbox.stop(hostd, generation + 1);
    await sandbox.remove(hostd, 1);
    await sandbox.remove(hostd, 1);
    refusedBy(await sandbox.launch(hostd, 9, 1), 404, 'disk_not_found');
    await hostd.close();
    assert.deepEqual([...keptFiles(config), ...hostLeftovers(config)], []);
  });

  test('a kept disk that is full, or that a guest goes on writing to, is kept within seconds and works after', async () => {
    using installation = makeInstallation();
    const sandbox = sandboxOf(installation);
    await using hostd = await HostdProcess.start(installation);
    ok(await sandbox.launch(hostd, 1));
    await sandbox.inside(
      'head -c 1M /dev/urandom > /opt/first; cat /dev/zero > /opt/full; md5sum /opt/* > /dev/shm/x; true',
    );
    await sandbox.inside(
      'for i in 1 2 3; do setsid sh -c "while :; do head -c 300K /dev/urandom > /opt/first; rm /opt/first; done" > /dev/null 2>&1 & done',
    );
    const begun = performance.now();
    ok(await sandbox.keep(hostd, 1));
    ok(await sandbox.park(hostd, 1));
    assert.ok(performance.now() - begun < 30_000);
    ok(await sandbox.launch(hostd, 2, 1));
    assert.ok(Number(await sandbox.inside('stat -c %s /opt/full')) > 32 * MEBIBYTE);
    await sandbox.inside('rm -f /opt/first /opt/full; head -c 20M /dev/urandom > /opt/next');
    const used = (await sandbox.park(hostd, 2)).body.disk.bytes;
    assert.ok(used > 20 * MEBIBYTE && used < 24 * MEBIBYTE, `the room of removed files is given back: ${used}`);
  });

  test('a kept disk that was not unmounted is mended, and one that cannot be is refused and stays', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const sandbox = sandboxOf(installation);
    await using hostd = await HostdProcess.start(installation);
    ok(await sandbox.launch(hostd, 1));
    await sandbox.inside('for i in $(seq 200); do echo $i > /opt/$i; done');
    ok(await sandbox.park(hostd, 1));
    await hostd.close();
    const folder = join(config.hostdDir, 'parked', 'sbx_a-1');
    const record = JSON.parse(readFileSync(join(folder, 'parked.json'), 'utf8'));
    // As after a loss of power, by which the counts of free blocks and inodes were not written.
    writeFileSync(join(folder, 'parked.json'), JSON.stringify({ ...record, bootId: 'another' }));
    const image = join(folder, 'disk.img');
    const contents = readFileSync(image);
    contents.fill(0, 1024 + 0x0c, 1024 + 0x14);
    writeFileSync(image, contents);
    await using after = await HostdProcess.start(installation);
    ok(await sandbox.launch(after, 2, 1));
    assert.equal(await sandbox.inside('cat /opt/* 2>/dev/null | wc -l'), '200\n');
    ok(await sandbox.park(after, 2));
    const parked = join(config.hostdDir, 'parked', 'sbx_a-2');
    writeFileSync(
      join(parked, 'disk.img'),
      Buffer.alloc(statSync(image, { throwIfNoEntry: false })?.size ?? 64 * MEBIBYTE),
    );
    const unclean = { ...JSON.parse(readFileSync(join(parked, 'parked.json'), 'utf8')), isClean: false };
    writeFileSync(join(parked, 'parked.json'), JSON.stringify(unclean));
    await after.close();
    await using last = await HostdProcess.start(installation);
    refusedBy(await sandbox.launch(last, 3, 2), 422, 'disk_broken');
    assert.equal((await parkedOf(last)).length, 1);
    assert.deepEqual(instanceLeftovers(config), []);
  });

  test('a kept disk is refused for an instance that an earlier release has launched, which goes on', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const sandbox = sandboxOf(installation);
    await using before = await HostdProcess.start(installation);
    ok(await sandbox.launch(before, 1));
    await before.close();
    const file = join(config.hostdDir, 'instances', 'sbx_a-1', 'instance.json');
    const { image, ...record } = JSON.parse(readFileSync(file, 'utf8'));
    assert.ok(image.handle);
    writeFileSync(file, JSON.stringify(record));
    await using after = await HostdProcess.start(installation);
    refusedBy(await sandbox.park(after, 1), 422, 'disk_unkeepable');
    refusedBy(await sandbox.keep(after, 1), 422, 'disk_unkeepable');
    assert.equal((await after.list()).length, 1);
    assert.deepEqual(globSync(join(config.hostdDir, 'parked', '*')), []);
  });
});
