import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { TemplateBuild } from '@cloche/contract';
import {
  eventStream,
  json,
  type Reply,
  type SeenRequest,
  sampleSandbox,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { needsRoot } from '@cloche/testkit/needs-root';
import { tarOf, writeLayout, writeSaved } from '../../../../shared/image-archive/testing/make-image.ts';
import { runInProcess } from '../../testing/run-in-process.ts';

const build = {
  id: 'bld_1',
  templateId: 'tpl_1',
  templateSlug: 'own',
  status: 'succeeded',
  templateVersionId: 'tplv_2',
  steps: [{ description: 'image', status: 'succeeded' }],
  finishedAt: '2026-01-01T00:00:00.000Z',
} as unknown as TemplateBuild;

const settings = {
  name: `docker.io/library/debian:latest@sha256:${'0'.repeat(64)}`,
  digest: `sha256:${'0'.repeat(64)}`,
  env: { HOME_OF: '/srv' },
  user: '1000',
  workdir: '/home',
  shell: ['/bin/ash', '-c'],
  onBuild: [],
};

const REPLIES: Readonly<Record<string, Reply>> = {
  'GET debian': json(404, { error: { code: 'not_found', message: 'no such template' } }),
  'POST inspect': json(200, { image: settings }),
  'POST sandboxes': json(201, { sandbox: sampleSandbox({ status: 'ready' }) }),
  'PUT content': json(200, { file: { path: '/tmp/upload-1' } }),
  'POST artifacts': json(201, { artifact: { id: 'art_1' } }),
  'DELETE sbx_1': json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) }),
  'DELETE art_1': json(200, { artifact: { id: 'art_1' } }),
  'POST builds': json(201, { build }),
  'GET stream': eventStream([`data: ${JSON.stringify({ type: 'complete', data: build })}\n\n`]),
  'GET bld_1': json(200, { build }),
};
const nameOf = ({ method, path }: SeenRequest) => `${method} ${path.replace(/\?.*/, '').split('/').at(-1)}`;

async function startService() {
  const server = await startScriptedServer((request) => REPLIES[nameOf(request)] ?? json(418, {}));
  return Object.assign(server, {
    names: () => server.requests.map(nameOf),
    find: (name: string) => server.requests.find((request) => nameOf(request) === name),
  });
}

const layer = tarOf([{ name: 'srv/', flag: '5' }]);
const image = {
  layers: [layer],
  config: { Env: ['PATH=/opt/app/bin:/bin', 'HOME_OF=/srv'], WorkingDir: '/srv', User: '1000' },
};

let folder: string;
let archive: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-import-'));
  archive = join(folder, 'image.tar');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('cloche template import', () => {
  const run = (url: string, ...args: string[]) =>
    runInProcess(['template', 'import', '--slug', 'own', ...args, archive], { url });

  for (const [format, write] of Object.entries({
    'an oci-archive': () => writeLayout(archive, image),
    'an archive of docker save': () => writeSaved(archive, image),
    'a compressed archive of docker save': () => {
      writeSaved(archive, image);
      writeFileSync(archive, gzipSync(readFileSync(archive)));
    },
  })) {
    it(`cloche template import sends ${format} as it is, builds from it, and leaves neither sandbox nor artifact`, async () => {
      write();
      await using service = await startService();
      const outcome = await run(service.url, '--language', 'python', '--disk', '4096');
      assert.deepEqual(outcome, { exitCode: 0, stdout: 'own tplv_2\n', stderr: `[1/1] FROM ${archive}\n` });
      assert.deepEqual(service.find('PUT content')?.bytes, readFileSync(archive));
      const recipe = { from: { artifactId: 'art_1' }, languages: ['python'], resources: { diskMb: 4096 } };
      assert.deepEqual(service.find('POST builds')?.body, recipe);
      assert.equal(service.names().at(-1), 'DELETE art_1');
      assert.ok(service.names().includes('DELETE sbx_1'));
    });
  }

  it('cloche template import refuses a file that is no image before it sends anything', async () => {
    await using service = await startService();
    const missing = await run(service.url);
    assert.deepEqual([missing.exitCode, missing.stderr], [1, `error: ${archive} does not exist.\n`]);
    writeFileSync(archive, tarOf([{ name: 'file', content: 'no image' }]));
    const wrong = await run(service.url);
    assert.equal(wrong.exitCode, 1);
    assert.match(wrong.stderr, /image\.tar: The archive is no image.*docker save/);
    writeFileSync(archive, 'no tar at all');
    assert.match((await run(service.url)).stderr, /is not a complete tar/);
    assert.deepEqual(service.requests, []);
  });
});

describe('cloche template import of curated templates', () => {
  const run = (...args: string[]) =>
    runInProcess(['template', 'import', ...args, archive], { env: { CLOCHE_CACHE_DIR: join(folder, 'cache') } });

  it('cloche template import of curated templates is told from that of an image by the first entry, and refuses what is no archive of an export', {
    skip: needsRoot,
  }, async () => {
    writeFileSync(archive, tarOf([{ name: 'cloche-templates.json', content: '{"format":9}' }]));
    const { exitCode, stdout, stderr } = await run();
    assert.deepEqual([exitCode, stdout], [1, '']);
    assert.match(stderr, /^error: .*import.*\.tar cannot be imported: it has format 9, .*; nothing was imported\.\n$/);
    assert.deepEqual(readdirSync(join(folder, 'cache/building')), []);
  });

  it('cloche template import of curated templates takes no options of images, and an image takes a slug', async () => {
    writeFileSync(archive, tarOf([{ name: 'cloche-templates.json', content: '{}' }]));
    const named = await run('--slug', 'own');
    assert.equal(named.exitCode, 2);
    assert.match(named.stderr, /has curated templates with names of their own; leave out --slug\./);
    writeSaved(archive, image);
    const unnamed = await run();
    assert.equal(unnamed.exitCode, 2);
    assert.match(unnamed.stderr, /has no name; give one with --slug\./);
  });
});

describe('cloche template export, refresh and revert', () => {
  const run = (...args: string[]) =>
    runInProcess(['template', ...args], { env: { CLOCHE_CACHE_DIR: join(folder, 'cache') } });

  it('cloche template export, refresh and revert refuse a template that the release does not have, and say which it has', {
    skip: needsRoot,
  }, async () => {
    for (const args of [
      ['export', archive, 'nodejs'],
      ['refresh', 'nodejs'],
      ['revert', 'nodejs'],
    ]) {
      const { exitCode, stderr } = await run(...args);
      assert.deepEqual(
        [exitCode, stderr],
        [2, 'error: There is no curated template "nodejs"; this release has node, python-node.\n'],
      );
    }
    assert.deepEqual(readdirSync(folder), []);
  });

  it('cloche template export, refresh and revert name the versions that can be gone back to', {
    skip: needsRoot,
  }, async () => {
    const { exitCode, stderr } = await run('revert', 'node', 'tplv_1');
    assert.deepEqual(
      [exitCode, stderr],
      [1, 'error: This machine has no such earlier version of node; earlier versions of its recipe: none.\n'],
    );
  });
});

describe('cloche template build --image', () => {
  it('cloche template build --image builds a Dockerfile on the image, with its variables, directory and user', async () => {
    writeLayout(archive, image, undefined, ['linux/arm64']);
    writeFileSync(
      join(folder, 'Dockerfile'),
      'FROM debian:bookworm\nENV PATH=/opt/more:$PATH\nRUN touch "$HOME_OF"\nUSER root\nCOPY Dockerfile .\n',
    );
    await using service = await startService();
    const args = ['template', 'build', '--slug', 'own', '--image', archive, '--disk', '300', folder];
    const { stdout, stderr } = await runInProcess(args, { url: service.url });
    assert.equal(stdout, 'own tplv_2\n', stderr);
    const { from, env, setup, resources } = (service.find('POST builds')?.body ?? {}) as Record<string, unknown>;
    const PATH = '/opt/more:/opt/app/bin:/bin';
    assert.deepEqual(
      { from, env, resources },
      { from: { artifactId: 'art_1' }, env: { PATH }, resources: { diskMb: 300 } },
    );
    const [first] = setup as object[];
    assert.deepEqual(first, { as: 'user', run: `exec /bin/sh -c 'touch "$HOME_OF"'`, cwd: '/srv', env: { PATH } });
  });

  it('starts from an image of a registry that FROM names, with its settings and by its digest', async () => {
    writeFileSync(join(folder, 'Dockerfile'), 'FROM debian\nWORKDIR $HOME_OF/a\nRUN touch built\n');
    await using service = await startService();
    const args = ['template', 'build', '--slug', 'own', folder];
    const { exitCode, stderr } = await runInProcess(args, { url: service.url });
    assert.equal(exitCode, 0, stderr);
    assert.deepEqual(service.find('POST inspect')?.body, { image: 'debian' });
    const { from, setup } = (service.find('POST builds')?.body ?? {}) as {
      from: unknown;
      setup: { run: string; cwd: string; as: string }[];
    };
    assert.deepEqual(from, { image: settings.name });
    assert.deepEqual(setup.at(-1), { as: 'user', run: "exec /bin/ash -c 'touch built'", cwd: '/srv/a', env: {} });
  });

  it('cloche template build --image names the account and the authorities with which the image of FROM is downloaded', async () => {
    writeFileSync(join(folder, 'Dockerfile'), 'FROM registry.example/a\n');
    writeFileSync(join(folder, 'ca.pem'), 'a certificate');
    await using service = await startService();
    const building = (...flags: string[]) =>
      runInProcess(['template', 'build', '--slug', 'own', ...flags, folder], { url: service.url });
    const ca = ['--registry-ca', join(folder, 'ca.pem')];
    await building('--registry-user', 'me', '--registry-secret', 'sec_1', ...ca);
    const account = { credentials: { username: 'me', secretId: 'sec_1' }, caCertificates: 'a certificate' };
    assert.deepEqual(service.find('POST inspect')?.body, { image: 'registry.example/a', ...account });
    const { from } = (service.find('POST builds')?.body ?? {}) as { from: unknown };
    assert.deepEqual(from, { image: settings.name, ...account });
    for (const flags of [
      ['--registry-user', 'me'],
      ['--registry-secret', 'sec_1'],
      ['--image', archive, ...ca],
    ]) {
      assert.equal((await building(...flags)).exitCode, 2, String(flags));
    }
  });

  it('cloche template build --image replaces `from` of a recipe', async () => {
    writeSaved(archive, image);
    const file = join(folder, 'recipe.json');
    writeFileSync(file, JSON.stringify({ from: 'python-node', env: { A: 'b' } }));
    await using service = await startService();
    const args = ['template', 'build', '--slug', 'own', '-f', file, '--image', archive];
    assert.equal((await runInProcess(args, { url: service.url })).exitCode, 0);
    assert.deepEqual(service.find('POST builds')?.body, { from: { artifactId: 'art_1' }, env: { A: 'b' } });
  });
});
