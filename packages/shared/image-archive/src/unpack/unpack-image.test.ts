import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { needsRoot } from '@cloche/testkit/needs-root';
import {
  digestOf,
  json,
  type TestEntry,
  type TestImage,
  tarOf,
  writeLayout,
  writeSaved,
} from '../../testing/make-image.ts';
import { ArchiveFile } from '../read/archive-file.ts';
import { ImageError } from '../read/image-error.ts';
import { prepareRoot } from './prepare-root.ts';
import { unpackImage } from './unpack-image.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-image-test-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;
const fresh = (name: string) => join(folder, `${++count}-${name}`);
const LIMITS = { maxEntries: 1000, maxBytes: 10_000_000 };
const file = (name: string, content = name, more: Partial<TestEntry> = {}): TestEntry => ({ name, content, ...more });
const link = (name: string, target: string): TestEntry => ({ name, flag: '2', target });

async function unpack(archive: string, limits = LIMITS) {
  const root = fresh('root');
  mkdirSync(root);
  return { root, ...(await unpackImage(await ArchiveFile.open(archive, fresh('spool'), 20_000_000), root, limits)) };
}

async function unpackLayers(...layers: TestEntry[][]) {
  const archive = fresh('image.tar');
  writeLayout(archive, { layers: layers.map(tarOf) });
  return unpack(archive);
}

async function refusal(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => assert.fail('the image was accepted'),
    (each: unknown) => each,
  );
  assert.ok(error instanceof ImageError, String((error as Error).stack));
  return error.message;
}

const read = (root: string, path: string) => readFileSync(join(root, path), 'utf8');

describe('unpackImage', { skip: needsRoot }, () => {
  const image: TestImage = {
    layers: [
      tarOf([
        { name: 'etc/', flag: '5' },
        file('etc/app.conf', 'lower'),
        file('etc/gone', 'x'),
        { name: 'd/', flag: '5' },
        file('d/a'),
        file('d/b'),
      ]),
      tarOf([
        file('./etc/app.conf', 'upper', { mode: 0o4750, uid: 10, gid: 20 }),
        file('etc/.wh.gone', ''),
        file('d/c'),
        file('d/.wh..wh..opq', ''),
        file('.wh..wh.plnk', ''),
      ]),
    ],
    config: { Env: ['PATH=/app/bin', 'EMPTY=', 'WITH=a=b'], User: 'app', WorkingDir: '/srv' },
  };

  it('unpackImage puts layers over each other, of every format and compression', async () => {
    const results = [];
    for (const compression of ['none', 'gzip', 'zstd'] as const) {
      for (const write of [writeSaved, writeLayout]) {
        const archive = fresh('image.tar');
        write(archive, { ...image, compression });
        results.push(await unpack(archive));
      }
    }
    const whole = fresh('image.tar.gz');
    writeSaved(whole, image);
    writeFileSync(whole, gzipSync(readFileSync(whole)));
    results.push(await unpack(whole));
    for (const { root, layers, config, entries, sizeBytes } of results) {
      assert.deepEqual(readdirSync(root, { recursive: true }).sort(), ['d', 'd/c', 'etc', 'etc/app.conf']);
      assert.equal(read(root, 'etc/app.conf'), 'upper');
      const { mode, uid, gid } = statSync(join(root, 'etc/app.conf'));
      assert.deepEqual([mode & 0o7777, uid, gid], [0o4750, 10, 20]);
      assert.deepEqual([layers, entries, sizeBytes], [2, 11, 20]);
      assert.deepEqual(config.env, { PATH: '/app/bin', EMPTY: '', WITH: 'a=b' });
      assert.deepEqual([config.user, config.workdir], ['app', '/srv']);
    }
  });

  it('unpackImage keeps hard links, also to files of lower layers, and replaces what changes its kind', async () => {
    const { root } = await unpackLayers(
      [
        file('a', 'one'),
        { name: 'b', flag: '1', target: 'a' },
        { name: 'dir/', flag: '5' },
        file('dir/x'),
        link('usr', 'dir'),
      ],
      [{ name: 'c', flag: '1', target: '/a' }, file('dir', 'file now'), { name: 'usr/', flag: '5' }, file('usr/y')],
    );
    const inodes = ['a', 'b', 'c'].map((name) => statSync(join(root, name)).ino);
    assert.equal(new Set(inodes).size, 1);
    assert.equal(read(root, 'dir'), 'file now');
    assert.equal(read(root, 'usr/y'), 'usr/y');
  });

  it('unpackImage follows links inside the image, as a process in it would', async () => {
    const { root } = await unpackLayers(
      [
        { name: 'usr/lib/', flag: '5' },
        link('lib', 'usr/lib'),
        link('abs', '/usr/lib'),
        link('usr/deep', '/usr/lib'),
        link('up', '../../usr/../lib'),
      ],
      [
        file('lib/one'),
        file('abs/two'),
        file('up/three'),
        file('usr/deep/four'),
        { name: 'hard', flag: '1', target: 'abs/one' },
      ],
      [file('lib/.wh.two', '')],
    );
    assert.deepEqual(readdirSync(join(root, 'usr/lib')).sort(), ['four', 'one', 'three']);
    assert.equal(read(root, 'hard'), 'lib/one');
    assert.equal(readlinkSync(join(root, 'abs')), '/usr/lib');
  });

  it('unpackImage unpacks what GNU tar packs, byte for byte', async () => {
    const source = fresh('source');
    mkdirSync(join(source, 'long'.repeat(50), 'deep'.repeat(40)), { recursive: true });
    writeFileSync(join(source, 'ünïcode'), 'x'.repeat(300_000));
    const script =
      'touch f; ln f h; ln -s none broken; mkdir t; chmod 1777 t; chown 1234:4321 f; touch "$(printf "\\377")"';
    execFileSync('sh', ['-c', script], { cwd: source });
    for (const format of ['gnu', 'posix']) {
      const tar = execFileSync('tar', ['-C', source, `--format=${format}`, '-cf', '-', '.'], { maxBuffer: 1e8 });
      const archive = fresh('image.tar');
      writeLayout(archive, { layers: [tar], compression: 'gzip' });
      const { root } = await unpack(archive);
      const listing = (at: string) =>
        execFileSync(
          'sh',
          [
            '-c',
            `cd '${at}' && find . ! -name . -printf '%P %y %m %U %G %n %l %s\\n' | LC_ALL=C grep -av ' d ' | LC_ALL=C sort; md5sum f h ünïcode`,
          ],
          { encoding: 'utf8' },
        );
      assert.equal(listing(root), listing(source));
    }
  });

  it('unpackImage lets no entry lead out of the folder', async () => {
    const outside = fresh('outside');
    writeFileSync(outside, 'untouched');
    const up = '../'.repeat(12);
    const attacks: TestEntry[][] = [
      [file(`${up}${outside}`, 'attacked')],
      [file('a/../../x', 'attacked')],
      [{ name: 'hard', flag: '1', target: `${up}${outside}` }],
      [{ name: 'hard', flag: '1', target: outside }, file('hard', 'attacked')],
      [file('d/.wh...', ''), file('x')],
      [file('.wh..', '')],
      [file('.wh.', '')],
    ];
    for (const attack of attacks)
      assert.match(
        await refusal(unpackLayers(attack)),
        /Layer 1 .*cannot be unpacked: ".*" (leads out|is a hard link|hides no)/,
      );
    // Links out of the image are what images may contain. Writing through them stays inside.
    const inside: TestEntry[][] = [
      [link('out', folder), file(`out/${outside.slice(folder.length + 1)}`, 'attacked')],
      [link('out', `${up}${folder}`), file(`out/${outside.slice(folder.length + 1)}`, 'attacked')],
      [link('out', outside), file('out', 'attacked')],
      [link('one', '/two'), link('two', folder), file('one/x', 'attacked')],
      [file(outside, 'attacked')],
    ];
    for (const entries of inside) {
      const { root } = await unpackLayers(...entries.map((entry) => [entry]));
      assert.ok(existsSync(root));
    }
    assert.equal(readFileSync(outside, 'utf8'), 'untouched');
    assert.deepEqual(
      readdirSync(folder).filter((name) => name === 'x'),
      [],
    );
    // A whiteout below a link removes inside the image, not where the link would lead on this host.
    await unpackLayers([link('out', folder)], [file(`out/.wh.${outside.slice(folder.length + 1)}`, '')]);
    await unpackLayers([link('out', folder)], [file('out/.wh..wh..opq', '')]);
    assert.equal(readFileSync(outside, 'utf8'), 'untouched');
    assert.match(await refusal(unpackLayers([link('a', 'b'), link('b', 'a'), file('a/x')])), /too many links/);
    assert.match(await refusal(unpackLayers([file('a'), file('a/x')])), /lies below an entry that is not a directory/);
  });

  it('unpackImage leaves out devices of /dev, and refuses others and owners that a sandbox does not have', async () => {
    const { root } = await unpackLayers([
      { name: 'dev/', flag: '5' },
      { name: 'dev/console', flag: '3' },
      { name: './dev/p', flag: '6' },
      file('a'),
    ]);
    assert.deepEqual(readdirSync(root, { recursive: true }).sort(), ['a', 'dev']);
    for (const name of ['sda', 'etc/sda', 'etc/dev/sda', 'dev'])
      assert.match(await refusal(unpackLayers([{ name, flag: '4' }])), new RegExp(`"${name}" is a device`));
    assert.match(await refusal(unpackLayers([file('a', 'a', { uid: 70_000 })])), /belongs to 70000:0/);
  });

  it('unpackImage bounds entries and bytes, also those of entries that are not unpacked', async () => {
    const many = fresh('image.tar');
    writeLayout(many, { layers: [tarOf(Array.from({ length: 20 }, (_, index) => file(`f${index}`)))] });
    assert.match(await refusal(unpack(many, { ...LIMITS, maxEntries: 19 })), /"f19" is over the limit: .* 19 entries/);
    await unpack(many, { ...LIMITS, maxEntries: 20 });
    const zeros = Buffer.alloc(9_000_000);
    for (const entry of [file('zeros', '', { content: zeros }), { name: 'dev/zero', flag: '3', content: zeros }]) {
      const bomb = fresh('bomb.tar');
      writeLayout(bomb, { layers: [tarOf([entry]), tarOf([entry])], compression: 'gzip' });
      assert.match(await refusal(unpack(bomb)), /Layer 2 .*more than \d+ bytes when it is decompressed/);
    }
    const whole = fresh('bomb.tar.gz');
    writeFileSync(whole, gzipSync(Buffer.alloc(30_000_000)));
    assert.match(await refusal(unpack(whole)), /larger than 20000000 bytes when it is decompressed/);
  });

  it('unpackImage checks the digest of each layer, manifest and configuration', async () => {
    const other = tarOf([file('other')]);
    const spoil = (files: Record<string, Buffer>, find: RegExp, bytes: (before: Buffer) => Buffer) => {
      const name = Object.keys(files).find((each) => find.test(each)) ?? assert.fail();
      files[name] = bytes(files[name] ?? Buffer.alloc(0));
    };
    const [lower = Buffer.alloc(0)] = image.layers;
    const ofLayer = new RegExp(digestOf(lower).slice(7));
    const saved = fresh('image.tar');
    writeSaved(saved, image, (files) => spoil(files, ofLayer, () => other));
    assert.match(await refusal(unpack(saved)), /Layer 1 .*the digest of its tar is sha256:/);
    writeSaved(saved, image, (files) => spoil(files, /\.json$/, (before) => Buffer.concat([before, Buffer.from(' ')])));
    assert.match(await refusal(unpack(saved)), /has another digest/);
    const layout = fresh('image.tar');
    writeLayout(layout, image, (files) => spoil(files, ofLayer, () => other));
    assert.match(await refusal(unpack(layout)), /Layer 1 .*its digest is sha256:/);
    for (const part of ['config', 'manifest']) {
      writeLayout(layout, image, (files) => {
        for (const [name, bytes] of Object.entries(files))
          if (bytes.toString('latin1', 0, 300).includes(part === 'config' ? '"diff_ids"' : '"layers":['))
            files[name] = Buffer.concat([bytes, Buffer.from('\n')]);
      });
      assert.match(await refusal(unpack(layout)), /has another digest/, part);
    }
    // A gzip that unpacks to what the configuration names, and is not what the manifest names.
    writeLayout(layout, { ...image, compression: 'gzip' }, (files) => {
      for (const [name, bytes] of Object.entries(files))
        if (bytes[0] === 0x1f) files[name] = Buffer.concat([bytes, gzipSync('')]);
    });
    assert.match(await refusal(unpack(layout)), /its digest is/);
  });

  it('unpackImage refuses archives that are not complete, and names what is missing', async () => {
    const drop = (find: RegExp) => (files: Record<string, Buffer>) => {
      for (const name of Object.keys(files)) if (find.test(name)) delete files[name];
    };
    const archive = fresh('image.tar');
    const [, upper = Buffer.alloc(0)] = image.layers;
    writeLayout(archive, image, drop(new RegExp(digestOf(upper).slice(7))));
    assert.match(await refusal(unpack(archive)), /lacks layer 2 \(sha256:/);
    writeSaved(archive, image, drop(new RegExp(digestOf(upper).slice(7))));
    assert.match(await refusal(unpack(archive)), /lacks layer 2/);
    writeSaved(archive, image, drop(/manifest\.json/));
    assert.match(await refusal(unpack(archive)), /neither index\.json nor manifest\.json/);
    writeSaved(archive, { ...image, layers: [tarOf([file('x')]).subarray(0, 600)] });
    assert.match(await refusal(unpack(archive)), /Layer 1 .*ends before its last entry is complete/);
    writeFileSync(archive, readFileSync(archive).subarray(0, 1000));
    assert.match(await refusal(unpack(archive)), /not a complete tar/);
    writeFileSync(archive, 'no archive');
    assert.match(await refusal(unpack(archive)), /not a complete tar/);
    writeFileSync(archive, gzipSync('x').subarray(0, 15));
    assert.match(await refusal(unpack(archive)), /compressed data .* is corrupt/);
    writeFileSync(archive, '');
    assert.match(await refusal(unpack(archive)), /neither index\.json/);
    for (const spoiled of [
      '[]',
      '{}',
      '{"manifests":[{}]}',
      '{"manifests":[{"digest":"sha256:../../etc/passwd"}]}',
      'x',
      '{"manifests":7}',
    ]) {
      writeLayout(archive, image, (files) => Object.assign(files, { 'index.json': Buffer.from(spoiled) }));
      await refusal(unpack(archive));
    }
    writeSaved(archive, image, (files) =>
      Object.assign(files, { 'manifest.json': json([{ Config: '/etc/hostname', Layers: [] }]) }),
    );
    assert.match(await refusal(unpack(archive)), /has no file/);
  });

  it('unpackImage takes the image of this platform, and names the platforms of others', async () => {
    const archive = fresh('image.tar');
    const own = process.arch === 'x64' ? 'linux/amd64' : 'linux/arm64';
    writeLayout(archive, image, undefined, ['linux/s390x', own, 'unknown/unknown']);
    assert.equal((await unpack(archive)).config.platform, own);
    writeLayout(archive, image, undefined, ['linux/s390x', 'windows/amd64', 'unknown/unknown']);
    assert.match(
      await refusal(unpack(archive)),
      new RegExp(`no image for "${own}", only for "linux/s390x", "windows/amd64"`),
    );
    writeSaved(archive, { ...image, platform: 'linux/s390x' });
    assert.match(
      await refusal(unpack(archive)),
      new RegExp(`is for "linux/s390x", and this service needs one for "${own}"`),
    );
    writeLayout(archive, { ...image, platform: 'linux/s390x' }, undefined, [undefined]);
    assert.match(await refusal(unpack(archive)), /is for "linux\/s390x"/);
    writeLayout(archive, image, (files) => {
      const index = JSON.parse(String(files['index.json']));
      const inner = json({ mediaType: 'application/vnd.oci.image.index.v1+json', manifests: index.manifests });
      files[`blobs/sha256/${digestOf(inner).slice(7)}`] = inner;
      files['index.json'] = json({ manifests: [{ digest: digestOf(inner) }, { digest: digestOf(inner) }] });
    });
    assert.equal((await unpack(archive)).layers, 2, 'one image with two names is one');
  });
});

describe('prepareRoot', { skip: needsRoot }, () => {
  it('prepareRoot gives each image the folders and the account of a sandbox', async () => {
    const { root } = await unpackLayers([
      file('etc/passwd', 'root:x:0:0:r:/root:/bin/ash\nnode:x:1000:1000::/home/node:/bin/sh\n'),
      file('etc/group', 'root:x:0:\n'),
      file('bin/bash'),
      link('etc/resolv.conf', '../run/resolv.conf'),
      link('home', '/var/home'),
      link('proc', '/etc'),
    ]);
    prepareRoot(root, '/');
    const lines = read(root, 'etc/passwd').split('\n');
    assert.deepEqual(lines.slice(0, 3), [
      'user:x:1000:1000::/home/user:/bin/bash',
      'root:x:0:0:r:/root:/bin/ash',
      'node:x:1000:1000::/home/node:/bin/sh',
    ]);
    assert.match(read(root, 'etc/group'), /^user:x:1000:\nroot:x:0:\n$/);
    for (const path of ['workspace', 'home/user']) assert.equal(lstatSync(join(root, path)).uid, 1000, path);
    for (const path of ['proc', 'sys', 'dev', 'run', 'opt/cloche', 'home'])
      assert.ok(lstatSync(join(root, path)).isDirectory(), path);
    assert.equal(lstatSync(join(root, 'tmp')).mode & 0o7777, 0o1777);
    assert.deepEqual([lstatSync(join(root, 'etc/resolv.conf')).isFile(), read(root, 'etc/resolv.conf')], [true, '']);
    const before = read(root, 'etc/passwd');
    prepareRoot(root, '/');
    assert.equal(read(root, 'etc/passwd'), before, 'a second time changes nothing');
  });

  it('prepareRoot creates the working directory of the image, inside the image, and keeps one that exists', async () => {
    const outside = fresh('outside');
    mkdirSync(outside);
    const { root } = await unpackLayers([link('srv', outside), { name: 'app/', flag: '5', mode: 0o700 }]);
    prepareRoot(root, '/srv/naïve/../data');
    prepareRoot(root, '/app');
    assert.ok(lstatSync(join(root, outside, 'data')).isDirectory());
    assert.deepEqual(readdirSync(outside), []);
    assert.equal(lstatSync(join(root, 'app')).mode & 0o777, 0o700);
    writeFileSync(join(root, 'file'), '');
    assert.throws(() => prepareRoot(root, '/file/below'), {
      name: 'ImageError',
      message: /working directory of the image cannot be created: "\/?file\/below" lies below/,
    });
  });

  it('prepareRoot writes only inside the image, whatever is a link there', async () => {
    const outside = fresh('outside');
    writeFileSync(outside, 'untouched');
    const { root } = await unpackLayers([
      link('etc/passwd', outside),
      link('etc/group', '/none'),
      link('etc/hosts', outside),
      link('workspace', folder),
      link('bin', outside),
    ]);
    prepareRoot(root, '/');
    assert.equal(readFileSync(outside, 'utf8'), 'untouched');
    assert.match(read(root, 'etc/passwd'), /^user:x:1000:1000::\/home\/user:\/bin\/sh\nroot:x:0:0:/);
    const { root: second } = await unpackLayers([link('etc', folder)]);
    assert.throws(() => prepareRoot(second, '/'), /\/etc of the image is not a directory/);
  });
});
