import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { createSecureContext, type SecureContext, TLSSocket, connect as tlsConnect } from 'node:tls';
import { listening, portOf } from '../testing/test-servers.ts';
import { CertificateAuthority } from './authority/certificate-authority.ts';
import { resetConnection } from './reset-connection.ts';

let server: Server;
let secureContext: SecureContext;
let near: Socket;
let far: Socket;
before(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-break-off-'));
  const { certificate, key } = await (await CertificateAuthority.open(folder)).issue({
    kind: 'name',
    name: 'a.example',
  });
  secureContext = createSecureContext({ cert: certificate, key });
  rmSync(folder, { recursive: true });
  server = await listening(createServer({ allowHalfOpen: true }));
});
after(() => server.close());
beforeEach(async () => {
  far = connect(portOf(server), '127.0.0.1').on('error', () => {});
  [[near]] = await Promise.all([once(server, 'connection'), once(far, 'connect')]);
  near.on('error', () => {});
});
afterEach(() => far.destroy());

/** Sets up TLS at both ends; the near end as the gateway does. */
async function secured(): Promise<{ nearTls: TLSSocket; farTls: TLSSocket }> {
  const nearTls = new TLSSocket(near, { isServer: true, secureContext }).on('error', () => {});
  const farTls = tlsConnect({ socket: far, rejectUnauthorized: false, servername: 'a.example' }).on('error', () => {});
  await Promise.all([once(nearTls, 'secure'), once(farTls, 'secureConnect')]);
  Object.assign(nearTls, { secureConnecting: false });
  return { nearTls, farTls };
}

/** Returns whether the connection ends in a way that does not look like a complete transfer. */
async function isBrokenOff(socket: Socket): Promise<boolean> {
  let isEnded = false;
  socket.resume().once('end', () => {
    isEnded = true;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return !isEnded;
}

test('the other end gets an error', async () => {
  const told = isBrokenOff(far);
  resetConnection(near);
  assert.ok(await told);
});

test('what the other end does not take is not waited for', async () => {
  far.pause();
  near.write(Buffer.alloc(16 * 1024 * 1024));
  const closed = once(near, 'close');
  resetConnection(near);
  await closed;
});

test('a connection is closed whose TLS is being ended', async () => {
  const { nearTls, farTls } = await secured();
  const closed = once(near, 'close');
  const ending = new Promise((resolve) => nearTls.resume().once('end', () => resolve(nearTls.end())));
  farTls.end();
  await ending;
  await new Promise(process.nextTick);
  resetConnection(near);
  await closed;
});

test('a connection that is TLS itself is closed as well', async () => {
  const { nearTls, farTls } = await secured();
  const [told, closed] = [isBrokenOff(farTls), once(near, 'close')];
  resetConnection(nearTls);
  await closed;
  assert.ok(await told);
});

test('what is closed already stays so', () => {
  near.destroy();
  resetConnection(near);
});
