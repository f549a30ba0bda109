/** Pulls images from Debian's `docker-registry`. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { ImagePull } from '@cloche/protocol';
import { ownPlatform } from '../../packages/shared/image-archive/src/read/image-config.ts';
import { pullImage, resolveImage } from '../../packages/shared/image-archive/src/registry/pull-image.ts';
import { RegistryClient } from '../../packages/shared/image-archive/src/registry/registry-client.ts';
import { unpackImage } from '../../packages/shared/image-archive/src/unpack/unpack-image.ts';
import { type TestImage, tarOf } from '../../packages/shared/image-archive/testing/make-image.ts';
import { DockerRegistry } from '../support/docker-registry.ts';
import { type TestAuthority, testAuthority } from '../support/test-authority.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-pull-'));
const PASSWORD = 'a password: with a colon';
const PORT = 40_000 + (process.pid % 10_000);
const REGISTRY = `127.0.0.1:${PORT}`;
const LIMITS = { maxEntries: 1000, maxBytes: 10_000_000 };
const imageOf = (content: string, more: Partial<TestImage> = {}): TestImage => ({
  layers: [tarOf([{ name: 'lower', content: 'lower' }]), tarOf([{ name: 'file', content }])],
  config: { Env: ['GREETING=hi'] },
  compression: 'gzip',
  ...more,
});

let authority: TestAuthority;
let registry: DockerRegistry;
let locked: DockerRegistry;
let count = 0;

before(async () => {
  authority = await testAuthority([], ['127.0.0.1']);
  setDefaultCACertificates([...getCACertificates('default'), authority.root]);
  const options = { ...authority, address: '127.0.0.1' };
  registry = await DockerRegistry.start({ ...options, port: PORT });
  const account = { username: 'me', password: PASSWORD };
  locked = await DockerRegistry.start({ ...options, port: PORT + 1, account });
});
after(async () => {
  await registry?.[Symbol.asyncDispose]();
  await locked?.[Symbol.asyncDispose]();
  authority?.[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

/** Pulls an image and returns the content of its file, and its variables. */
async function pulled(image: Partial<ImagePull> & Pick<ImagePull, 'reference'>, password?: string) {
  const client = new RegistryClient({ registry: REGISTRY, repository: 'team/app', ...image }, password);
  const root = join(folder, `${++count}-root`);
  mkdirSync(root);
  const files = await pullImage(client, image.reference, join(folder, `${count}-layout`));
  const { config } = await unpackImage(files, root, LIMITS);
  return `${readFileSync(join(root, 'file'), 'utf8')} ${readFileSync(join(root, 'lower'), 'utf8')} ${config.env.GREETING}`;
}

describe('an image of docker-registry', () => {
  it('an image of docker-registry is pulled by its tag and by its digest, with layers of gzip, of zstd, and plain ones', async () => {
    for (const compression of ['gzip', 'zstd', 'none'] as const) {
      const digest = await registry.push('team/app', compression, imageOf(compression, { compression }));
      assert.equal(await pulled({ reference: compression }), `${compression} lower hi`);
      assert.equal(await pulled({ reference: digest }), `${compression} lower hi`);
      const client = new RegistryClient({ registry: REGISTRY, repository: 'team/app', reference: compression });
      assert.equal(await resolveImage(client, compression), digest);
    }
  });

  it('an image of docker-registry is the one for this platform, of an index', async () => {
    const platforms = ['linux/s390x', ownPlatform(), 'unknown/unknown'];
    const digest = await registry.push('team/app', 'index', imageOf('mine'), platforms);
    assert.equal(await pulled({ reference: 'index' }), 'mine lower hi');
    assert.equal(await pulled({ reference: digest }), 'mine lower hi');
    await registry.push('team/app', 'foreign', imageOf('theirs'), ['linux/s390x', 'linux/ppc64le']);
    await assert.rejects(pulled({ reference: 'foreign' }), {
      message: `${REGISTRY}/team/app has no image for "${ownPlatform()}", only for "linux/s390x", "linux/ppc64le".`,
    });
  });

  it('an image of docker-registry has a layer that it names twice', async () => {
    const layer = tarOf([{ name: 'file', content: 'twice' }]);
    await registry.push(
      'team/app',
      'twice',
      imageOf('', { layers: [layer, tarOf([{ name: 'lower', content: 'lower' }]), layer] }),
    );
    assert.equal(await pulled({ reference: 'twice' }), 'twice lower hi');
  });

  it('an image of docker-registry is not found by another tag, digest or name, and the error says so', async () => {
    const missing = /registry has no such image of .*\(404\): .*(unknown|not found|known)/;
    await assert.rejects(pulled({ reference: 'absent' }), { code: 'bad_image', message: missing });
    await assert.rejects(pulled({ reference: `sha256:${'0'.repeat(64)}` }), { code: 'bad_image', message: missing });
    await assert.rejects(pulled({ reference: 'gzip', repository: 'other' }), { code: 'bad_image', message: missing });
    const client = new RegistryClient({ registry: REGISTRY, repository: 'team/app', reference: 'absent' });
    await assert.rejects(resolveImage(client, 'absent'), { message: /no such image/ });
  });

  it('an image of docker-registry is pulled with the account of the registry, and not without it', async () => {
    await locked.push('team/app', 'private', imageOf('private'));
    const image = { registry: `127.0.0.1:${PORT + 1}`, reference: 'private' };
    assert.equal(await pulled({ ...image, username: 'me' }, PASSWORD), 'private lower hi');
    await assert.rejects(pulled(image), { message: /does not exist, or needs from.credentials \(401\)/ });
    await assert.rejects(pulled({ ...image, username: 'me' }, 'wrong'), {
      message: /refuses the credentials .*hosts of the secret/,
    });
  });

  it('an image of docker-registry is not pulled from a registry whose certificate is not trusted, at once', async () => {
    const unknown = { ...authority, certFile: authority.unknownCertFile };
    await using foreign = await DockerRegistry.start({
      ...unknown,
      root: readFileSync(unknown.certFile, 'utf8'),
      address: '127.0.0.1',
      port: PORT + 2,
    });
    assert.ok(foreign);
    const startedAt = performance.now();
    await assert.rejects(pulled({ registry: `127.0.0.1:${PORT + 2}`, reference: 'a' }), {
      message: /certificate of 127.0.0.1:\d+ is not trusted \([A-Z_]+\); name its authority in from.caCertificates/,
    });
    assert.ok(performance.now() - startedAt < 1000 * Number(process.env.CLOCHE_TEST_SLOWNESS ?? 1));
  });
});
