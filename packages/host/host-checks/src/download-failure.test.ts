import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { remedyFor } from '../starter/download-failure.mjs';

/** Ends of what programs printed, with the subject of the sentence that names the fix. */
const FAILURES: readonly (readonly [string, string, RegExp])[] = [
  [
    'npm, a missing library',
    'node: error while loading shared libraries: libatomic.so.1: cannot open',
    /^The lines above/,
  ],
  ['npm, a module of another system', "Cannot find module '@scope/binding-linux-arm64-gnu'", /^The lines above/],
  ['npm, a full disk', 'npm error ENOSPC: no space left on device, write', /disk space/],
  ['apt, a full disk', 'dpkg: error: cannot copy extracted data: No space left on device', /disk space/],
  [
    'npm without DNS',
    'npm error network request to https://npm.example/x failed, reason: getaddrinfo EAI_AGAIN npm.example',
    /cannot resolve npm\.example/,
  ],
  [
    'apt without DNS',
    "Err:1 http://deb.example/debian bookworm InRelease\n  Temporary failure resolving 'deb.example'",
    /cannot resolve deb\.example/,
  ],
  [
    'npm without a route',
    'npm error network connect ETIMEDOUT https://npm.example:443/x',
    /does not reach npm\.example/,
  ],
  ['apt without a route', 'Could not connect to deb.example:80 (192.0.2.1), connection timed out', /does not reach/],
  [
    'pip behind a proxy that signs',
    'SSLError(SSLCertVerificationError(1, CERTIFICATE_VERIFY_FAILED)) https://pip.example/simple',
    /certificate of pip\.example/,
  ],
  [
    'a folder that cannot be written',
    'npm error EACCES: permission denied, mkdir /opt/cloche/node_modules',
    /writable/,
  ],
];

describe('the fix of a step that failed', () => {
  for (const [name, output, fix] of FAILURES) it(`is that of ${name}`, () => assert.match(remedyFor(output), fix));

  it('blames the network only for what failed by it', () => {
    for (const output of [
      'mmdebstrap: E: chroot failed',
      'Error: a file is missing\n    at packages/host/hostd/src/network/sandbox-network.ts:1',
      '+ enter-root /etc/ssl/certs/ca-certificates.crt\nenter-root: mount_setattr: Invalid argument',
    ]) {
      assert.match(remedyFor(output), /^The lines above/, output);
    }
  });
});
