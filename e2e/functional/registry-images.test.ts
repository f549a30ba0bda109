/** Builds templates of images that sandboxes download from Debian's `docker-registry`. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { NetworkPolicy, SecretId, TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { Template } from 'e2b';
import { execa } from 'execa';
import { type TestEntry, tarOf } from '../../packages/shared/image-archive/testing/make-image.ts';
import { SandboxCommands } from '../support/commands.ts';
import { DockerRegistry } from '../support/docker-registry.ts';
import { e2bOptions } from '../support/e2b-options.ts';
import { busyboxRoot } from '../support/image-root.ts';
import { ALL_PROTOCOLS, type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';

const PASSWORD = 'the-password-of-this-registry-5e21';
const REGISTRY = 'cloche.test:5000';
const PRIVATE = 'cloche.test:5001';
const ALLOWED: NetworkPolicy = { mode: 'allowlist', hosts: ['cloche.test'] };
const DENIED: readonly NetworkPolicy[] = [{ mode: 'deny-all' }, { mode: 'denylist', hosts: ['cloche.test'] }];

let internet: TestInternet;
let service: OwnService;
let registry: DockerRegistry;
let locked: DockerRegistry;
let base: Buffer;

before(async () => {
  internet = await testInternet();
  const { address, namespace, authority } = internet;
  const options = { ...authority, address, namespace, listenAddress: '0.0.0.0' };
  registry = await DockerRegistry.start({ ...options, port: 5000 });
  locked = await DockerRegistry.start({ ...options, port: 5001, account: { username: 'me', password: PASSWORD } });
  service = await testService({
    ...ALL_PROTOCOLS,
    CLOCHE_DNS_UPSTREAM: `${address}:53`,
    CLOCHE_EGRESS_EXTRA_CA: authority.rootFile,
    CLOCHE_DEFAULT_REGISTRY: REGISTRY,
  });
  base = busyboxRoot();
});
after(async () => {
  await service?.close();
  await registry?.[Symbol.asyncDispose]();
  await locked?.[Symbol.asyncDispose]();
  await internet?.[Symbol.asyncDispose]();
});

function imageOf(...entries: TestEntry[]) {
  const config = { Env: ['PATH=/opt/app/bin:/bin', 'GREETING=hi'] };
  return { layers: [base, tarOf(entries)], config, compression: 'gzip' as const };
}

async function built(slug: string, recipe: TemplateRecipe): Promise<TemplateBuild & { log: string }> {
  const exists = (await service.api.get(`/v1/templates/${slug}`)).status === 200;
  const created = exists
    ? await service.api.post(`/v1/templates/${slug}/builds`, recipe)
    : await service.api.post('/v1/templates', { slug, ...recipe });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  for (let { build } = created.body; ; ) {
    const path = `/v1/templates/${slug}/builds/${build.id}`;
    if (build.finishedAt !== undefined) {
      const { data } = (await service.api.get(`${path}/logs?limit=1000`)).body;
      return { ...build, log: data.map((entry: { data: string }) => entry.data).join('') };
    }
    ({ build } = (await service.api.get(`${path}?waitMs=60000`)).body);
  }
}

async function outputIn(template: string, command: string): Promise<string | undefined> {
  const sandbox = await service.api.readySandbox({ template });
  const { stdout } = await new SandboxCommands(service, sandbox.id).run(command);
  await service.api.request('DELETE', `/v1/sandboxes/${sandbox.id}`);
  return stdout;
}

const statuses = ({ steps }: TemplateBuild) => steps.map(({ status }) => status);

describe('an image of a registry', () => {
  it('an image of a registry is the root of a version, and is downloaded again only when its tag names another', async () => {
    await registry.push('team/app', '1', imageOf({ name: 'file', content: 'first' }));
    const from = { image: `${REGISTRY}/team/app:1`, caCertificates: internet.authority.root };
    const recipe: TemplateRecipe = { from, setup: [{ run: 'echo "$GREETING $(cat /file)" > /greeting' }] };
    const first = await built('app', recipe);
    assert.equal(first.status, 'succeeded', JSON.stringify(first));
    assert.equal(first.steps[0]?.description, `pull the image ${REGISTRY}/team/app:1`);
    assert.equal(await outputIn('app', 'cat /greeting; test -e /usr/bin/apt || echo no apt'), 'hi first\nno apt\n');

    const same = await built('app', recipe);
    assert.deepEqual([same.templateVersionId, statuses(same)], [first.templateVersionId, ['cached', 'cached']]);

    const digest = await registry.push('team/app', '1', imageOf({ name: 'file', content: 'second' }));
    const second = await built('app', recipe);
    assert.deepEqual(
      [second.status, statuses(second)],
      ['succeeded', ['succeeded', 'succeeded']],
      JSON.stringify(second),
    );
    assert.match(second.log, new RegExp(`The image is ${REGISTRY}/team/app:1@${digest}\n`));
    assert.match(first.log, /^Layer 1 of 2 .*: \d+\.\d MiB downloaded in \d+\.\d s$/m);
    assert.match(second.log, /^Layer 1 of 2 .*: \d+\.\d MiB, cached$/m, 'both images have the same base');
    assert.match(second.log, /^Layer 2 of 2 .*: 0\.0 MiB downloaded in \d+\.\d s$/m);
    assert.equal(await outputIn('app', 'cat /greeting'), 'hi second\n');

    const pinned = await built('pinned', { ...recipe, from: { ...from, image: `${REGISTRY}/team/app@${digest}` } });
    assert.deepEqual(statuses(pinned), ['cached', 'cached'], 'another template takes the same digest from the cache');
    assert.equal(await outputIn('pinned', 'cat /greeting'), 'hi second\n');
  });

  it('an image of a registry has a name without a registry, and is downloaded under the policy of the recipe', async () => {
    await registry.push('library/small', 'latest', imageOf({ name: 'file', content: 'small' }));
    // These are for programs of the image, and would break the program that downloads it.
    const env = { NODE_OPTIONS: '--no-such-option', NODE_EXTRA_CA_CERTS: '/none', NODE_TLS_REJECT_UNAUTHORIZED: '0' };
    const allowed = await built('small-of-all', { from: 'small', env, networkPolicy: ALLOWED });
    assert.equal(allowed.status, 'succeeded', JSON.stringify(allowed));
    assert.equal(await outputIn('small-of-all', 'cat /file; echo $NODE_OPTIONS'), 'small--no-such-option\n');
    for (const networkPolicy of DENIED) {
      const denied = await built('denied', { from: 'small:latest', networkPolicy });
      assert.deepEqual([denied.status, denied.error?.code, denied.error?.step], ['failed', 'step_failed', 1]);
      assert.match(denied.error?.message ?? '', /cloche\.test:5000 (cannot be reached|answers 403)/);
    }
  });

  it('a build says that its image or registry does not exist', async () => {
    const { root: caCertificates } = internet.authority;
    const cases: readonly [image: string, message: RegExp][] = [
      ['absent', /no such image of cloche\.test:5000\/library\/absent \(404\)/],
      [`team/app@sha256:${'0'.repeat(64)}`, /no such image of .*team\/app \(404\)/],
      ['private.test:5000/team/app', /private\.test:5000 cannot be reached/],
      ['nowhere.test:5000/team/app', /nowhere\.test:5000 cannot be reached: ENOTFOUND/],
      ['localhost:5000/team/app', /localhost:5000 cannot be reached: ECONNREFUSED/],
    ];
    for (const [image, message] of cases) {
      const { status, error } = await built('absent-image', { from: { image, caCertificates } });
      assert.deepEqual([status, error?.code, error?.step], ['failed', 'step_failed', 1], image);
      assert.match(error?.message ?? '', message);
    }
    const untrusted = await built('untrusted', { from: `${REGISTRY}/team/app:1` });
    assert.match(untrusted.error?.message ?? '', /certificate of cloche\.test:5000 is not trusted/);
  });
});

describe('a private image', () => {
  it('a private image is downloaded with an account whose password the sandbox does not have', async () => {
    await locked.push('team/secret', '1', imageOf({ name: 'file', content: 'private' }));
    const image = `${PRIVATE}/team/secret:1`;
    const secretId = await createSecret(['cloche.test']);
    const credentials = { username: 'me', secretId };
    const build = await built('private', { from: { image, credentials }, setup: [{ run: 'env > /env' }] });
    assert.equal(build.status, 'succeeded', JSON.stringify(build));
    assert.equal(
      await outputIn('private', 'cat /file; grep -c REGISTRY /env; env | grep -c REGISTRY'),
      'private0\n0\n',
    );
    assert.doesNotMatch(JSON.stringify(build), new RegExp(`${PASSWORD}|clsec_`));

    const elsewhere = { username: 'me', secretId: await createSecret(['allowed.test']) };
    const refused = await built('refused', { from: { image: `${PRIVATE}/team/secret:2`, credentials: elsewhere } });
    assert.match(
      refused.error?.message ?? '',
      /refuses the credentials .*hosts of the secret must include cloche\.test/,
    );
    const without = await built('refused', { from: image, networkPolicy: ALLOWED });
    assert.match(without.error?.message ?? '', /does not exist, or needs from\.credentials \(401\)/);
  });

  it('a private image is what FROM of a Dockerfile starts from', async () => {
    const config = {
      Env: ['PATH=/opt/app/bin:/bin', 'APP=/srv/app'],
      WorkingDir: '/srv',
      User: '1000',
      Shell: ['/bin/sh', '-xc'],
      OnBuild: ['RUN echo triggered > /tmp/trigger'],
      Entrypoint: ['/bin/serve'],
      ExposedPorts: { '80/tcp': {} },
    };
    const profile = { name: 'etc/profile', content: 'PATH=/nowhere; export PATH\n' };
    const program = { name: 'opt/app/bin/greet', content: '#!/bin/sh\necho hello', mode: 0o755 };
    const image = imageOf({ name: 'file', content: 'private' }, program, profile);
    await locked.push('team/file', '1', { ...image, config });
    const folder = mkdtempSync(join(tmpdir(), 'cloche-from-'));
    const lines = [
      `FROM ${PRIVATE}/team/file:1`,
      'ENV NAME=me HOME_OF=$APP/home',
      'RUN echo "$NAME $HOME_OF $(pwd) $(id -u) $(cat /file) $(cat /tmp/trigger) $(greet) $-" > /tmp/made',
    ];
    writeFileSync(join(folder, 'Dockerfile'), lines.join('\n'));
    const account = ['--registry-user', 'me', '--registry-secret', await createSecret(['cloche.test'])];
    const args = ['template', 'build', '--slug', 'from-file', ...account, '--registry-ca', internet.authority.rootFile];
    try {
      const env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
      const { stderr } = await execa(resolve('packages/clients/cli/bin/cloche.mjs'), [...args, folder], { env });
      assert.match(stderr, /^\[1\/3\] FROM cloche\.test:5001\/team\/file:1$/m);
      assert.match(stderr, /^Layer 2 of 2 \(sha256:[0-9a-f]{12}\): 0\.0 MiB downloaded in \d+\.\d s$/m);
      assert.match(stderr, /^Without effect, .*: ENTRYPOINT \/bin\/serve; EXPOSE 80\/tcp$/m);
      assert.match(stderr, /^Sandboxes run as user in \/workspace\. The image has USER 1000 and WORKDIR \/srv\.$/m);
    } finally {
      rmSync(folder, { recursive: true });
    }
    const made = await outputIn('from-file', 'cat /tmp/made; greet');
    assert.match(made ?? '', /^me \/srv\/app\/home \/srv 1000 private triggered hello .*x.*\nhello\n$/);
  });

  it('a private image is downloaded for E2B’s clients, which give the account with the image', async () => {
    await locked.push('team/e2b', '1', imageOf({ name: 'file', content: 'private' }));
    const build = (password: string, line: string) => {
      const template = Template().fromImage(`${PRIVATE}/team/e2b:1`, { username: 'me', password });
      return Template.build(template.setUser('root').runCmd(line), 'of-e2b', e2bOptions(service));
    };
    await assert.rejects(build('wrong', 'true'), /refuses the credentials/);
    await build(PASSWORD, 'cat /file > /made');
    assert.equal(await outputIn('of-e2b', 'cat /made'), 'private');
    const { data } = (await service.api.get('/v1/secrets')).body;
    const stored = data.filter(({ name }: { name: string }) => name === `${PRIVATE} me`);
    assert.deepEqual(
      stored.map(({ hosts }: { hosts: string[] }) => hosts),
      [['cloche.test', '*.cloche.test']],
    );
  });

  it('a private image needs a secret that exists', async () => {
    const secretId = await createSecret(['cloche.test']);
    await service.api.request('DELETE', `/v1/secrets/${secretId}`);
    const from = { image: `${PRIVATE}/team/secret:1`, credentials: { username: 'me', secretId } };
    const { status, body } = await service.api.post('/v1/templates', { slug: 'no-secret', from });
    assert.deepEqual([status, body.error.code], [404, 'not_found']);
  });
});

async function createSecret(hosts: readonly string[]): Promise<SecretId> {
  const { status, body } = await service.api.post('/v1/secrets', { name: 'registry', value: PASSWORD, hosts });
  assert.equal(status, 201, JSON.stringify(body));
  return body.secret.id;
}
