/** Registries that lie about digests, sizes and redirections, that ask for tokens, and whose connections break. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { type TestAuthority, testAuthority } from '../../../../../e2e/support/test-authority.ts';
import { type Lie, LyingRegistry } from '../../testing/lying-registry.ts';
import { digestOf, json, tarOf } from '../../testing/make-image.ts';
import { blobName } from '../read/read-json.ts';
import { inspectImage, listLayers, pullImage, resolveImage } from './pull-image.ts';
import { PullProgress } from './pull-progress.ts';
import { RegistryClient, type RegistryTimes } from './registry-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-lies-'));
const TIMES: Partial<RegistryTimes> = { pauseMs: 1, longestPauseMs: 20, attempts: 3, idleMs: 2000 };
const IMAGE = { layers: [tarOf([{ name: 'file', content: randomBytes(300_000) }])] };
const OTHER = `sha256:${'1'.repeat(64)}`;
let authority: TestAuthority;
let count = 0;

before(async () => {
  authority = await testAuthority(['localhost'], ['127.0.0.1']);
  setDefaultCACertificates([...getCACertificates('default'), authority.root]);
});
after(() => {
  authority?.[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

function clientOf({ host }: LyingRegistry, username?: string): RegistryClient {
  const image = { registry: host, repository: 'team/app', reference: '1', ...(username !== undefined && { username }) };
  return new RegistryClient(image, 'placeholder', TIMES);
}

interface Pull {
  readonly reference?: string;
  readonly username?: string;
  readonly lines?: string[];
  readonly into?: string;
}

const pull = (
  registry: LyingRegistry,
  { reference = '1', username, lines = [], into = join(folder, String(++count)) }: Pull = {},
) =>
  pullImage(clientOf(registry, username), reference, into, { progress: new PullProgress((line) => lines.push(line)) });

const isBlob = ({ url = '' }: { url?: string | undefined }) => url.includes('/blobs/');
/** A lie about the answers to requests of the layer alone. */
const ofLayer =
  (lie: Lie): Lie =>
  (request, response, honest) =>
    isBlob(request) && (honest?.length ?? 0) > 100_000 && lie(request, response, honest);
const end = (response: ServerResponse, status: number, fields: Record<string, string>, body: Buffer | string = '') => {
  response.writeHead(status, fields).end(body);
  return true;
};

describe('a registry that lies', () => {
  const manifestOf = (change: (manifest: LyingRegistry['manifest']) => void) => (registry: LyingRegistry) => {
    const { manifest } = registry;
    change(manifest);
    registry.manifest = manifest;
  };
  const answers = (lie: Lie) => (registry: LyingRegistry) => {
    registry.lie = lie;
  };
  const sizeOf = (size: unknown) => manifestOf(({ layers }) => Object.assign(layers[0] ?? {}, { size }));
  const redirect = (location: string) => answers(ofLayer((_, response) => end(response, 307, { location })));
  const nested = (registry: LyingRegistry) => {
    const indexes = new Map<string, Buffer>();
    let inner: object = { digest: OTHER, size: 1 };
    for (let depth = 0; depth < 5; depth += 1) {
      const index = json({
        schemaVersion: 2,
        mediaType: 'application/vnd.oci.image.index.v1+json',
        manifests: [inner],
      });
      indexes.set(depth === 4 ? '1' : digestOf(index), index);
      inner = { digest: digestOf(index), size: index.length };
    }
    registry.lie = ({ url = '' }, response) => end(response, 200, {}, indexes.get(url.slice(url.lastIndexOf('/') + 1)));
  };
  const challenge = (realm: string) =>
    answers((_, response) => end(response, 401, { 'www-authenticate': `Bearer realm="${realm}"` }));

  const lies: readonly [what: string, tell: (registry: LyingRegistry) => void, message: RegExp, reference?: string][] =
    [
      [
        'names another digest of a tag',
        answers(
          ({ url = '' }, response) => !isBlob({ url }) && end(response, 200, { 'docker-content-digest': OTHER }, '{}'),
        ),
        /has another digest/,
      ],
      ['sends another manifest for a digest', () => undefined, /has another digest/, OTHER],
      [
        'sends other bytes of the same size',
        answers(ofLayer((_, response, honest = Buffer.of()) => end(response, 200, {}, Buffer.alloc(honest.length)))),
        /sends other bytes for sha256/,
      ],
      [
        'sends more bytes',
        answers(
          ofLayer((_, response, honest = Buffer.of()) => end(response, 200, {}, Buffer.concat([honest, honest]))),
        ),
        /sends more bytes for .* than the \d+/,
      ],
      [
        'sends a body without an end',
        answers(
          ofLayer((_, response) => {
            const more = () => {
              while (response.write(Buffer.alloc(65_536)));
            };
            response.on('drain', more);
            more();
            return true;
          }),
        ),
        /sends more bytes/,
      ],
      [
        'sends less',
        answers(ofLayer((_, response) => end(response, 200, {}, 'short'))),
        /ends sha256:.* after 5 of \d+ bytes/,
      ],
      ['sends nothing', answers(ofLayer((_, response) => end(response, 200, {}))), /after 0 of \d+ bytes/],
      ['names a larger size', sizeOf(400_000), /ends sha256:.* of 400000 bytes/],
      ['names a smaller size', sizeOf(1000), /sends more bytes/],
      ['names a size below zero', sizeOf(-1), /invalid size: -1/],
      ['names a size as a text', sizeOf('100'), /invalid size: "100"/],
      ['names a size that no number has', sizeOf(1e300), /invalid size/],
      ['names no size', sizeOf(undefined), /invalid size: none/],
      [
        'names a size beyond the disk',
        sizeOf(2 ** 52),
        /layers of the image have 4294967297 MiB.* MiB left; set resources.diskMb/,
      ],
      [
        'names a path as a digest',
        manifestOf(({ layers }) => Object.assign(layers[0] ?? {}, { digest: 'sha256:../../../etc/passwd' })),
        /invalid digest/,
      ],
      [
        'answers with another part',
        answers(
          ofLayer(({ headers: { range } }, response) =>
            range === undefined
              ? end(response, 200, {}, 'begin')
              : end(response, 206, { 'content-range': 'bytes 0-99/100' }, 'x'),
          ),
        ),
        /another part/,
      ],
      ['redirects to HTTP', redirect('http://127.0.0.1/blob'), /redirects to "http:.*no HTTPS URL/],
      ['redirects to a file', redirect('file:///etc/passwd'), /redirects to "file:.*no HTTPS URL/],
      ['redirects with a user', redirect('https://me:secret@127.0.0.1/'), /no HTTPS URL/],
      ['redirects to no URL', redirect('https://['), /no HTTPS URL/],
      ['redirects without an end', redirect('/v2/team/app/blobs/other'), /answers 404|no such image/],
      [
        'redirects to itself',
        answers(ofLayer(({ url: location = '' }, response) => end(response, 302, { location }))),
        /redirects more than 5 times/,
      ],
      [
        'sends a manifest without an end',
        answers((_, response) => end(response, 200, {}, Buffer.alloc(9 * 1024 * 1024, ' '))),
        /more than 8388608 bytes/,
      ],
      ['sends a manifest that is no JSON', answers((_, response) => end(response, 200, {}, 'no')), /no JSON object/],
      ['sends a list as a manifest', answers((_, response) => end(response, 200, {}, '[]')), /no JSON object/],
      [
        'sends a manifest of another version',
        manifestOf((manifest) => Object.assign(manifest, { schemaVersion: 1 })),
        /version 1 and not 2/,
      ],
      [
        'has no image',
        manifestOf(({ config }) => Object.assign(config, { mediaType: 'application/vnd.cncf.helm.config.v1+json' })),
        /is no image, but has the type "application\/vnd.cncf.helm/,
      ],
      [
        'names too many layers',
        manifestOf((manifest) => {
          manifest.layers = Array.from({ length: 1001 }, () => manifest.config);
        }),
        /more than 1000 layers/,
      ],
      ['nests five indexes', nested, /too many nested indexes/],
      ['asks for a token of HTTP', challenge('http://127.0.0.1/token'), /asks for a token of "http:/],
      ['asks for a token of itself without an end', challenge('/token'), /needs from.credentials/],
      [
        'answers with nothing but errors',
        answers((_, response) => end(response, 503, { 'retry-after': '0' })),
        /answers 503/,
      ],
      [
        'asks to wait for a year',
        answers((_, response) => end(response, 429, { 'retry-after': '31536000' })),
        /answers 429/,
      ],
      [
        'closes every connection',
        answers(({ socket }) => {
          socket.destroy();
          return true;
        }),
        /cannot be reached: UND_ERR_SOCKET|cannot be reached: ECONNRESET/,
      ],
      [
        'prints control characters',
        answers((_, response) => end(response, 403, {}, '{"errors":[{"message":"no\\u001b[2J\\nthing"}]}')),
        /answers 403 for .*: no \[2J thing\.$/,
      ],
    ];
  for (const [what, tell, message, reference = '1'] of lies) {
    it(`a registry that lies and ${what} is refused`, async () => {
      await using registry = await LyingRegistry.start(IMAGE, authority);
      tell(registry);
      await assert.rejects(pull(registry, { reference }), { code: 'bad_image', message });
    });
  }

  it('a registry that lies and then stalls is given up', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    registry.lie = ofLayer((_, response) => response.writeHead(200).write('x'));
    const client = new RegistryClient({ registry: registry.host, repository: 'team/app', reference: '1' }, '', {
      ...TIMES,
      idleMs: 100,
    });
    await assert.rejects(pullImage(client, '1', join(folder, String(++count))), { message: /after \d of \d+ bytes/ });
  });
});

describe('a download', () => {
  it('a download goes on where its connections were cut off', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    let cuts = 0;
    registry.lie = ofLayer(({ headers: { range = 'bytes=0-' } }, response, honest = Buffer.of()) => {
      if (++cuts > 4) return false;
      const from = Number(/\d+/.exec(range)?.[0]);
      response.writeHead(from === 0 ? 200 : 206, { 'content-range': `bytes ${from}-` });
      response.write(honest.subarray(from, from + 50_000), () => setTimeout(() => response.destroy(), 50));
      return true;
    });
    const lines: string[] = [];
    const files = await pull(registry, { lines });
    const { digest, size } = registry.manifest.layers[0] ?? assert.fail();
    assert.equal(files.sizeOf(blobName(digest)), size);
    const title = `Layer 1 of 1 (${digest.slice(0, 19)})`;
    assert.equal(
      lines.filter((line) => /the connection broke after \d\.\d of 0\.3 MiB; the download goes on$/.test(line)).length,
      4,
    );
    assert.match(lines.at(-1) ?? '', /: 0\.3 MiB downloaded in \d+\.\d s$/);
    assert.ok(
      lines.every((line) => line.startsWith(`${title}: `)),
      lines.join('\n'),
    );
    const ranges = registry.requests.flatMap(({ path, range }) => (path.endsWith(digest) && range ? [range] : []));
    assert.ok(ranges.length >= 4 && ranges.at(-1) !== ranges[0], String(ranges));
    assert.ok(ranges.every((range) => range !== 'bytes=0-'));
  });

  it('a download takes the layers that are in its folder, unless their size is another', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    const [layer = assert.fail()] = await listLayers(clientOf(registry), '1');
    const into = join(folder, String(++count));
    const { pathOf } = await pull(registry, { into }).then((files) => ({
      pathOf: files.pathOf(blobName(layer.digest)),
    }));
    const bytes = readFileSync(pathOf);
    const requested = () => registry.requests.filter(({ path }) => path.endsWith(layer.digest)).length;
    assert.equal(requested(), 1);
    const lines: string[] = [];
    await pull(registry, { into, lines });
    assert.deepEqual([requested(), lines], [1, []]);
    writeFileSync(pathOf, bytes.subarray(1));
    await pull(registry, { into });
    assert.deepEqual([requested(), readFileSync(pathOf).equals(bytes)], [2, true]);
  });

  it('a download goes on with a registry that always sends the whole', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    let sent = 0;
    registry.lie = ofLayer((_, response, honest = Buffer.of()) => {
      if (++sent > 1) return end(response, 200, {}, honest);
      response.write(honest.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 50));
      return true;
    });
    const { digest } = registry.manifest.layers[0] ?? assert.fail();
    assert.ok((await pull(registry)).has(blobName(digest)));
    assert.ok(sent >= 2);
  });

  it('a download is repeated after answers that ask for it', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    let refused = 0;
    registry.lie = (_, response) =>
      ++refused % 2 === 1 && end(response, [429, 503][refused % 2] ?? 500, { 'retry-after': '0' });
    await pull(registry);
  });

  it('a download of the settings alone reads no layer', async () => {
    const config = { Env: ['A=1'], WorkingDir: '/srv', User: 'me:us', Shell: ['/bin/bash', '-c'], OnBuild: ['RUN a'] };
    await using registry = await LyingRegistry.start({ ...IMAGE, config }, authority);
    const { digest, config: found } = await inspectImage(clientOf(registry), '1');
    assert.equal(digest, await resolveImage(clientOf(registry), '1'));
    const { env, workdir, user, shell, onBuild } = found;
    assert.deepEqual(
      { env, workdir, user, shell, onBuild },
      { env: { A: '1' }, workdir: '/srv', user: 'me:us', shell: ['/bin/bash', '-c'], onBuild: ['RUN a'] },
    );
    const layer = registry.manifest.layers[0]?.digest ?? assert.fail();
    assert.ok(!registry.requests.some(({ path }) => path.endsWith(layer)));
    registry.lie = ({ url = '' }, response, honest) =>
      isBlob({ url }) && end(response, 200, {}, `${honest}`.replace('A=1', 'A=2'));
    await assert.rejects(inspectImage(clientOf(registry), '1'), { message: /has another digest/ });
  });

  it('a download follows a redirection to another host, which gets no credentials', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    await using store = await LyingRegistry.start(IMAGE, authority);
    store.lie = (_, response, honest) => honest === undefined && end(response, 404, {});
    registry.lie = ({ headers, url = '' }, response) => {
      if (headers.authorization === undefined) return end(response, 401, { 'www-authenticate': 'Basic realm="r"' });
      return isBlob({ url }) && end(response, 307, { location: `https://${store.host}${url}` });
    };
    await pull(registry, { username: 'me' });
    const basic = `Basic ${Buffer.from('me:placeholder').toString('base64')}`;
    assert.ok(registry.requests.some(({ authorization }) => authorization === basic));
    assert.ok(store.requests.length >= 2);
    assert.deepEqual(store.requests.map(({ authorization }) => authorization).filter(Boolean), []);
  });

  it('a download gets a token for this repository alone, and another one when it has expired', async () => {
    await using registry = await LyingRegistry.start(IMAGE, authority);
    let issued = 0;
    let left = 0;
    registry.lie = ({ url = '', headers: { authorization = '' } }, response) => {
      if (url.startsWith('/token')) {
        left = 2;
        return end(response, 200, {}, JSON.stringify({ token: `token-${++issued}` }));
      }
      if (authorization === `Bearer token-${issued}` && left-- > 0) return false;
      const realm = `https://${registry.host}/token`;
      return end(response, 401, {
        'www-authenticate': `Bearer realm="${realm}",service="a \\"b\\"",scope="repository:other:push"`,
      });
    };
    assert.match(await resolveImage(clientOf(registry, 'me'), '1'), /^sha256:/);
    await pull(registry, { username: 'me' });
    assert.ok(issued >= 2);
    const asked = registry.requests.find(({ path }) => path.startsWith('/token'));
    assert.equal(asked?.path, '/token?service=a+%22b%22&scope=repository%3Ateam%2Fapp%3Apull');
    assert.match(asked?.authorization ?? '', /^Basic /);
  });
});
