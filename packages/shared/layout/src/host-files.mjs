import { existsSync } from 'node:fs';

/** Static init programs: tini of Debian and of Fedora, and Docker's, which is tini too. */
export const INIT_PROGRAMS = [
  '/usr/bin/tini-static',
  '/usr/sbin/tini-static',
  '/usr/bin/docker-init',
  '/usr/libexec/docker/docker-init',
];

/** Certificates of public authorities: of Debian and Arch, of Fedora and RHEL, of openSUSE. */
export const CERTIFICATE_BUNDLES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/ssl/ca-bundle.pem',
];

/**
 * Returns the first file that this machine has, or the first name where it has none.
 *
 * @param {readonly string[]} files
 * @returns {string}
 */
export function firstPresent(files) {
  return files.find((file) => existsSync(file)) || files[0] || '';
}
