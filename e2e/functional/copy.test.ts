import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-copy-e2e-'));
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

const here = (name: string) => join(folder, name);
const there = (path: string) => `${sandboxId}:${path}`;
const cloche = (args: string[], input?: string | Buffer) =>
  execa('packages/clients/cli/bin/cloche.mjs', args, {
    env: { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey },
    reject: false,
    encoding: 'buffer',
    ...(input === undefined ? {} : { input }),
  });
const cp = async (from: string, to: string, input?: string | Buffer) => {
  const result = await cloche(['cp', from, to], input);
  assert.equal(result.exitCode, 0, Buffer.from(result.stderr).toString());
  return Buffer.from(result.stdout);
};
const shell = async (line: string) => (await service.api.run(sandboxId, `!${line}`)).stdout.trim();

describe('cloche cp', () => {
  it('cloche cp copies a file in and out, as it is', async () => {
    const bytes = randomBytes(2_000_000);
    writeFileSync(here('file'), bytes);
    writeFileSync(here('program'), '#!/bin/sh\necho runs\n', { mode: 0o755 });
    await cp(here('file'), there('in/named'));
    await cp(here('program'), there('in/'));
    assert.equal(await shell('./in/program && stat -c %s in/named'), 'runs\n2000000');
    await cp(there('in/named'), here('out'));
    assert.ok(readFileSync(here('out')).equals(bytes));
    mkdirSync(here('into'));
    await cp(there('in/named'), here('into'));
    assert.deepEqual(readdirSync(here('into')), ['named']);
  });

  it('copies from standard input and to standard output', async () => {
    await cp('-', there('piped'), 'from a pipe');
    assert.equal((await cp(there('piped'), '-')).toString(), 'from a pipe');
  });

  it('cloche cp copies directories with all that is in them', async () => {
    mkdirSync(here('tree/sub'), { recursive: true });
    writeFileSync(here('tree/sub/file'), 'x');
    symlinkSync('sub/file', here('tree/link'));
    await cp(here('tree'), there('new'));
    assert.equal(await shell('cd new && find . | sort | xargs; readlink link'), '. ./link ./sub ./sub/file\nsub/file');
    await cp(here('tree'), there('new'));
    assert.equal(await shell('ls new'), 'link\nsub\ntree');
    await cp(here('tree/.'), there('new/tree'));
    await cp(there('new'), here('back'));
    assert.equal(readFileSync(here('back/tree/sub/file'), 'utf8'), 'x');
    assert.ok(statSync(here('back/link')).isFile());
  });

  it('copies between sandboxes', async () => {
    const other = (await service.api.readySandbox()).id;
    await cp('-', there('shared/file'), 'shared');
    await cp(there('shared'), `${other}:/workspace/`);
    assert.equal((await cp(`${other}:shared/file`, '-')).toString(), 'shared');
    await service.api.delete(`/v1/sandboxes/${other}`);
  });

  it('cloche cp keeps names of any bytes, of one file and of many, in each direction', async () => {
    const names = [
      Buffer.from('new\nline'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('n'.repeat(255)),
      Buffer.from('名前 %41'),
    ];
    mkdirSync(here('odd'));
    for (const name of names) writeFileSync(Buffer.concat([Buffer.from(`${here('odd')}/`), name]), name);
    await cp(here('odd'), there('odd'));
    const { body } = await service.api.get(`/v1/sandboxes/${sandboxId}/files?path=odd`);
    assert.equal(body.data.length, names.length, 'what arrived in the sandbox');
    await cp(there('odd'), here('odd-back'));
    const other = (await service.api.readySandbox()).id;
    for (const { path } of body.data) {
      await cp(there(path), `${other}:alone/`);
      await cp(`${other}:${path.replace('/workspace/odd', '/workspace/alone')}`, `${here('odd-alone')}/`);
    }
    const sorted = (all: Buffer[]) => all.toSorted(Buffer.compare);
    for (const folder of ['odd-back', 'odd-alone']) {
      const found = readdirSync(here(folder), { encoding: 'buffer' });
      assert.deepEqual(sorted(found), sorted(names), folder);
      for (const name of found)
        assert.ok(readFileSync(Buffer.concat([Buffer.from(`${here(folder)}/`), name])).equals(name));
    }
    await service.api.delete(`/v1/sandboxes/${other}`);
  });

  it('cloche cp refreshes a directory, and replaces links of it that are in the way instead of following them', async () => {
    await shell('mkdir -p refreshed && cd refreshed && mkdir real && echo first > real/file && ln -s /etc out');
    await cp(there('refreshed'), here('refreshed'));
    mkdirSync(here('own'));
    rmSync(here('refreshed/real'), { recursive: true });
    symlinkSync(here('own'), here('refreshed/real'));
    await shell('cd refreshed && rm out && mkdir out && echo x > out/x && echo second > real/file');
    await cp(there('refreshed/.'), here('refreshed'));
    assert.equal(readFileSync(here('refreshed/real/file'), 'utf8'), 'second\n');
    assert.equal(readFileSync(here('refreshed/out/x'), 'utf8'), 'x\n');
    assert.deepEqual(readdirSync(here('own')), []);
  });

  it('cloche cp leaves nothing where the disk is full', async () => {
    await shell('mkdir large && head -c 3M /dev/urandom > large/file');
    mkdirSync(here('small'));
    await execa('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', here('small')]);
    try {
      const { exitCode, stderr } = await cloche(['cp', there('large/.'), here('small')]);
      assert.equal(exitCode, 1);
      assert.match(Buffer.from(stderr).toString(), /small cannot be written: no space left on device/);
      assert.deepEqual(readdirSync(here('small')), []);
    } finally {
      await execa('umount', [here('small')]);
    }
  });

  it('cloche cp prints no error when its reader stops reading', async () => {
    await shell('truncate -s 50M zeros');
    const { stderr } = await execa('sh', ['-c', `node_modules/.bin/cloche cp ${there('zeros')} - | head -c 5`], {
      env: { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey },
    });
    assert.equal(stderr, '');
  });

  it('cloche cp says what is wrong, and leaves nothing half done', async () => {
    const missing = await cloche(['cp', there('nothing'), here('never')]);
    assert.equal(missing.exitCode, 1);
    assert.match(Buffer.from(missing.stderr).toString(), /"\/workspace\/nothing" does not exist/);
    assert.ok(!readdirSync(folder).some((name) => name.startsWith('never')));
    assert.equal((await cloche(['cp', here('a'), here('b')])).exitCode, 2);
    assert.match(Buffer.from((await cloche(['cp', here('absent'), there('x')])).stderr).toString(), /does not exist/);
  });
});

describe('cloche files', () => {
  it('cloche files lists, makes, moves and deletes', async () => {
    const said = async (...args: string[]) => Buffer.from((await cloche(['files', ...args])).stdout).toString();
    assert.equal(await said('mkdir', there('made/deep')), '/workspace/made/deep');
    await cp('-', there('made/deep/file'), '12345');
    assert.match(
      await said('ls', there('made'), '--depth', '2'),
      /0755 +- .* \/workspace\/made\/deep\/\n0644 +5 B .*\/file$/m,
    );
    await said('mv', there('made/deep'), 'made/moved');
    const { data } = JSON.parse(await said('ls', there('made/moved'), '--json'));
    assert.equal(data[0].path, '/workspace/made/moved/file');
    await said('rm', '-r', there('made'));
    assert.equal(await shell('ls made 2>&1 | grep -c "No such"'), '1');
  });

  it('acts as root of the sandbox where asked, as copying and exporting do', async () => {
    const said = async (...args: string[]) => Buffer.from((await cloche(args)).stdout).toString();
    const asRoot = ['--user', 'root'];
    writeFileSync(here('of-root'), 'x');
    await said('cp', ...asRoot, here('of-root'), there('/srv/deep/file'));
    assert.equal(await said('files', 'mkdir', ...asRoot, there('/srv/made')), '/srv/made');
    assert.equal(await said('files', 'mv', ...asRoot, there('/srv/deep/file'), '/srv/made/file'), '/srv/made/file');
    assert.match(await said('files', 'ls', ...asRoot, there('/srv/made')), /\/srv\/made\/file$/);
    assert.match(await said('artifact', 'export', ...asRoot, sandboxId, '/srv/made/file'), /^art_/);
    await said('files', 'rm', '-r', ...asRoot, there('/srv/made'));
    const refused = await cloche(['files', 'mkdir', there('/srv/made')]);
    assert.notEqual(refused.exitCode, 0);
    assert.match(Buffer.from(refused.stderr).toString(), /not accessible to the user of the sandbox.*root/s);
  });
});
