import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseDownloadOptions, plainSources, sourcesOf } from './apt-configuration.ts';

describe('the apt configuration of the machine', () => {
  it('the apt configuration of the machine gives the release, its updates and its security fixes, and leaves other vendors out', () => {
    const targets = [
      'http://mirror.example/debian/\tbookworm\tmain\t/usr/share/keyrings/debian-archive-keyring.gpg',
      'http://mirror.example/debian/\tbookworm\tmain\t/usr/share/keyrings/debian-archive-keyring.gpg',
      'http://mirror.example/security/\tbookworm-security\tmain\t$(SIGNED_BY)',
      'http://vendor.example/apt/\tvendor-bookworm\tmain\t/usr/share/keyrings/vendor.gpg',
      '',
    ].join('\n');
    assert.deepEqual(sourcesOf(targets, 'bookworm'), [
      'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian/ bookworm main',
      'deb http://mirror.example/security/ bookworm-security main',
    ]);
  });

  it('the apt configuration of the machine gives the mirrors of another release of Debian, and nothing of another distribution', () => {
    const key = '/usr/share/keyrings/debian-archive-keyring.pgp';
    const targets = [
      `http://mirror.example/debian/\ttrixie\tmain\t${key}\tDebian\tDebian`,
      `http://mirror.example/debian/\ttrixie\tnon-free-firmware\t${key}\tDebian\tDebian`,
      `http://mirror.example/debian/\ttrixie-updates\tmain\t${key}\tDebian\tDebian`,
      'http://mirror.example/security/\ttrixie-security\tmain\t$(SIGNED_BY)\tDebian\tDebian-Security',
      'http://vendor.example/apt/\tstable\tmain\t/usr/share/keyrings/vendor.gpg\tVendor\tVendor',
    ].join('\n');
    assert.deepEqual(sourcesOf(targets, 'bookworm'), [
      `deb [signed-by=${key}] http://mirror.example/debian/ bookworm main`,
      `deb [signed-by=${key}] http://mirror.example/debian/ bookworm-updates main`,
      'deb http://mirror.example/security/ bookworm-security main',
    ]);
    const ubuntu = 'http://mirror.example/ubuntu/\tnoble\tmain\t$(SIGNED_BY)\tUbuntu\tUbuntu';
    assert.deepEqual(sourcesOf(ubuntu, 'bookworm'), []);
  });

  it('the apt configuration of the machine keeps proxies and certificates, and nothing that is not about downloads', () => {
    const dump = [
      'APT::Architecture "amd64";',
      'Acquire::http::Proxy "http://proxy.example:3128";',
      'Acquire::https "";',
      'Acquire::https::CAInfo "/etc/ssl/company.pem";',
      'Acquire::IndexTargets::deb::Packages::flatMetaKey "Packages";',
      'Acquire::Check-Valid-Until "false";',
    ].join('\n');
    assert.deepEqual(parseDownloadOptions(dump), [
      'Acquire::http::Proxy "http://proxy.example:3128";',
      'Acquire::https::CAInfo "/etc/ssl/company.pem";',
      'Acquire::Check-Valid-Until "false";',
    ]);
  });

  it('the apt configuration of the machine leaves no credential, option or file of this machine in the sources of a template', () => {
    const sources = [
      'deb [signed-by=/etc/key.gpg trusted=yes] https://user:secret@mirror.example:8443/debian/ bookworm main',
      'deb http://mirror.example/security?token=secret bookworm-security main',
      'deb file:/srv/mirror bookworm main',
    ];
    assert.deepEqual(plainSources(sources), [
      'deb https://mirror.example:8443/debian/ bookworm main',
      'deb http://mirror.example/security bookworm-security main',
    ]);
  });
});
