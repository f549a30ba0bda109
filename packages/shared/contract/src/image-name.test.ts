import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatImageName, isImageName, parseImageName } from './image-name.ts';

const SHA256 = `sha256:${'0a'.repeat(32)}`;
const SHA512 = `sha512:${'0b'.repeat(64)}`;

describe('the name of an image', () => {
  // Expected as `docker pull` writes them in full.
  const accepted: Readonly<Record<string, string>> = {
    debian: 'docker.io/library/debian:latest',
    'debian:bookworm': 'docker.io/library/debian:bookworm',
    'index.docker.io/debian': 'docker.io/library/debian:latest',
    'docker.io/debian:12': 'docker.io/library/debian:12',
    'bitnami/redis': 'docker.io/bitnami/redis:latest',
    'ghcr.io/owner/name:1.0': 'ghcr.io/owner/name:1.0',
    'registry.example:5000/a/b/c': 'registry.example:5000/a/b/c:latest',
    'registry.example/one': 'registry.example/one:latest',
    'localhost/one:a': 'localhost/one:a',
    'localhost:5000/one': 'localhost:5000/one:latest',
    '192.0.2.1:5000/one': '192.0.2.1:5000/one:latest',
    'REGISTRY/one': 'REGISTRY/one:latest',
    [`debian@${SHA256}`]: `docker.io/library/debian@${SHA256}`,
    [`debian:bookworm@${SHA512}`]: `docker.io/library/debian:bookworm@${SHA512}`,
    'a__b/c-d.e_f:V1.0_x-y': 'docker.io/a__b/c-d.e_f:V1.0_x-y',
  };
  for (const [text, whole] of Object.entries(accepted)) {
    it(`${text.slice(0, 60)} means ${whole.slice(0, 60)}`, () => {
      const name = parseImageName(text);
      assert.ok(name);
      assert.equal(formatImageName(name), whole);
      assert.deepEqual(parseImageName(whole), name);
    });
  }

  const refused = [
    '',
    ':latest',
    'Debian',
    'debian:',
    'debian@',
    'debian:a:b',
    `debian@${SHA256}@${SHA256}`,
    'debian@sha256:0',
    `debian@${SHA256.toUpperCase()}`,
    'debian@md5:00000000000000000000000000000000',
    '/debian',
    'a//b',
    'a/../b',
    './debian',
    'a___b',
    '-a',
    'a b',
    'debian\n',
    'https://registry.example/a',
    'registry.example:0/a',
    'registry.example:70000/a',
    '[2001:db8::1]/a',
    'user@registry.example/a',
    'registry.example?x/a',
    'a/b#c',
    `debian:${'a'.repeat(129)}`,
    `${'a'.repeat(254)}/b`,
    'é/b',
  ];
  for (const text of refused) {
    it(`${JSON.stringify(text).slice(0, 60)} is refused`, () => assert.equal(parseImageName(text), undefined));
  }

  it('without a registry is of the default registry, where official images have the namespace of Docker Hub', () => {
    const full = (text: string) => formatImageName(parseImageName(text, 'mirror.example:5000') ?? assert.fail());
    assert.equal(full('debian'), 'mirror.example:5000/library/debian:latest');
    assert.equal(full('owner/name:1'), 'mirror.example:5000/owner/name:1');
    assert.equal(full('docker.io/debian:1'), 'docker.io/library/debian:1');
  });

  it('differs from slugs and ids of templates if it has a tag, a digest or a path', () => {
    for (const text of ['debian:12', 'a/b', `a@${SHA256}`]) assert.ok(isImageName(text), text);
    for (const text of ['debian', 'tplv_01', 'python-node']) assert.ok(!isImageName(text), text);
  });
});
