import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, beforeEach, describe, test } from 'node:test';
import { runPaths } from '@cloche/layout';
import { egressPaths, type GatedSandbox } from '@cloche/protocol';
import { GatedNetwork } from '../testing/gated-network.ts';
import { TinyDnsServer } from '../testing/tiny-dns-server.ts';
import { CertificateAuthority } from './authority/certificate-authority.ts';

const NOBODY = 65_534;
const CHECKOUT = new URL('../../../..', import.meta.url).pathname;
/** Destination of the client's connections. No server has this address. */
const ELSEWHERE = '203.0.113.9';

let folder: string;
let network: GatedNetwork;
let resolver: TinyDnsServer | undefined;
let egress: ChildProcess | undefined;
let server: ChildProcess | undefined;

before(async () => {
  folder = mkdtempSync('/run/cloche-egress-');
  network = new GatedNetwork();
  resolver = await TinyDnsServer.open();
  resolver.addresses.set('allowed.test', () => [network.serverAddress]);
  resolver.addresses.set('own.test', () => [network.hostAddress]);
  server = await startServer();
  egress = await startEgress();
});
beforeEach(() => put({ mode: 'allowlist', hosts: ['allowed.test', 'own.test'] }));
after(async () => {
  for (const child of [egress, server]) {
    child?.kill();
    if (child?.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }
  network?.[Symbol.dispose]();
  await resolver?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** Starts a server: HTTP on ports 80 and 8080, HTTPS on 443, a greeting on 25. */
async function startServer(): Promise<ChildProcess> {
  const authority = await CertificateAuthority.open(join(folder, 'servers'));
  writeFileSync(join(folder, 'extra.pem'), authority.certificate, { mode: 0o644 });
  writeFileSync(
    join(folder, 'leaf.json'),
    JSON.stringify(await authority.issue({ kind: 'name', name: 'allowed.test' })),
  );
  const program = `
    const { certificate: cert, key } = require(${JSON.stringify(join(folder, 'leaf.json'))});
    const serve = (request, response) => response.end(request.headers.host + ' ' + request.socket.localPort);
    for (const port of [80, 8080]) require('http').createServer(serve).listen(port);
    require('https').createServer({ cert, key }, serve).listen(443);
    require('net').createServer((socket) => socket.end('220 hello')).listen(25, () => console.log('listening'));`;
  return network.startAtServer(process.execPath, '-e', program);
}

/** Starts the program itself, as a user that owns only what hostd gives it, without capabilities. */
async function startEgress(): Promise<ChildProcess> {
  const { controlDir, authorityDir } = egressPaths(folder, join(folder, 'data'));
  for (const dir of [controlDir, authorityDir]) {
    mkdirSync(dir, { recursive: true });
    chownSync(dir, NOBODY, NOBODY);
  }
  const { gatewayAddress, clientCidr: sandboxCidr } = network;
  const told = JSON.stringify({ gatewayAddress, dnsPort: 10_153, sandboxCidr });
  writeFileSync(join(runPaths(folder).egressDir, 'network.json'), told, { mode: 0o644 });
  for (const dir of [folder, join(folder, 'data')]) chmodSync(dir, 0o755);
  const drop = ['--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all', '--inh-caps=-all'];
  const program = join(CHECKOUT, 'packages/host/egress/src/main.ts');
  const child = spawn('setpriv', [...drop, '--no-new-privs', process.execPath, program], {
    env: {
      CLOCHE_RUN_DIR: folder,
      CLOCHE_DATA_DIR: join(folder, 'data'),
      CLOCHE_DNS_UPSTREAM: `127.0.0.1:${resolver?.port}`,
      CLOCHE_EGRESS_EXTRA_CA: join(folder, 'extra.pem'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  child.stdout.resume();
  return child;
}

async function call(method: string, path: string, message?: unknown): Promise<string> {
  const { controlSocket: socketPath } = egressPaths(folder, join(folder, 'data'));
  const asked = request({ socketPath, method, path, headers: { 'content-type': 'application/json' } });
  asked.end(message === undefined ? undefined : JSON.stringify(message));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  assert.ok((answer.statusCode ?? 500) < 300, `${method} ${path}: ${answer.statusCode}`);
  return text(answer);
}

async function put(policy: GatedSandbox['policy']): Promise<void> {
  await call('PUT', `/sandboxes/${network.clientAddress}`, { sandboxId: 'sbx_test', policy });
}

/** Runs curl at the client. Every name resolves to an address without a server. */
function curl(url: string, ...options: string[]): Promise<string> {
  const { hostname } = new URL(url);
  const resolve = [80, 443, 8080].flatMap((port) => ['--resolve', `${hostname}:${port}:${ELSEWHERE}`]);
  return network.runAtClient(
    'curl',
    '-sS',
    '--noproxy',
    '*',
    '-m',
    '10',
    '-w',
    ' %{http_code}',
    ...resolve,
    ...options,
    url,
  );
}

describe('a client whose traffic the host redirects', () => {
  test('a client whose traffic the host redirects is served by an egress that has no privilege', () => {
    const status = readFileSync(`/proc/${egress?.pid}/status`, 'utf8');
    assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m);
    assert.match(status, /^CapEff:\t0+$/m);
    assert.match(status, /^CapBnd:\t0+$/m);
  });

  test('a client whose traffic the host redirects reaches a permitted host at the port that it asked for, wherever it believes that host to be', async () => {
    assert.equal(await curl('http://allowed.test/'), 'allowed.test 80 200');
    assert.equal(await curl('http://allowed.test:8080/'), 'allowed.test:8080 8080 200');
    assert.match(await curl('http://denied.test/'), /egress_denied.* 403$/);
  });

  test('a client whose traffic the host redirects reaches it by HTTPS, in HTTP/1.1 and in HTTP/2, with the authority of egress trusted', async () => {
    const authority = join(folder, 'authority.pem');
    writeFileSync(authority, JSON.parse(await call('GET', '/health')).authorityCertificate);
    for (const version of ['--http1.1', '--http2']) {
      assert.equal(await curl('https://allowed.test/', '--cacert', authority, version), 'allowed.test 443 200');
      assert.match(await curl('https://denied.test/', '--cacert', authority, version), /egress_denied.* 403$/);
    }
    await assert.rejects(curl('https://allowed.test/'), /certificate/);
  });

  test('a client whose traffic the host redirects looks names up at whatever resolver it asks, and is answered by egress', async () => {
    const program = `const resolver = new (require('dns').promises.Resolver)({ timeout: 2000, tries: 1 });
      resolver.setServers(['${ELSEWHERE}']);
      Promise.allSettled(['allowed.test', 'denied.test'].map((name) => resolver.resolve4(name))).then((all) =>
        console.log(JSON.stringify(all.map(({ value, reason }) => value ?? reason.code))));`;
    const answers = JSON.parse(await network.runAtClient(process.execPath, '-e', program));
    assert.deepEqual(answers, [[network.serverAddress], 'ENOTFOUND']);
  });

  test('a client whose traffic the host redirects does not reach the host itself, by name or by address', async () => {
    assert.match(await curl('http://own.test/'), /"reason":"address".* 403$/);
    await put({ mode: 'denylist', hosts: ['denied.test'] });
    assert.match(await curl(`http://${network.hostAddress}/`), /"reason":"address".* 403$/);
    assert.match(await curl(`http://${network.gatewayAddress}/`), /"reason":"address".* 403$/);
  });

  test('a client whose traffic the host redirects speaks other protocols with an address under a denylist, and with none under an allowlist', async () => {
    const greeting = () => network.runAtClient('curl', '-sS', '-m', '2', `telnet://${network.serverAddress}:25`);
    await assert.rejects(greeting);
    await put({ mode: 'denylist', hosts: ['denied.test'] });
    assert.equal(await greeting(), '220 hello');
    await put({ mode: 'denylist', hosts: [network.serverAddress] });
    await assert.rejects(greeting);
  });

  test('a client whose traffic the host redirects is refused everything while it is not registered, and served again without a restart', async () => {
    await call('PUT', '/sandboxes', { sandboxes: [] });
    await assert.rejects(curl('http://allowed.test/'), /reset|connect/i);
    await put({ mode: 'allowlist', hosts: ['allowed.test'] });
    assert.equal(await curl('http://allowed.test/'), 'allowed.test 80 200');
  });

  test('a client whose traffic the host redirects cannot have its policy changed by the user of egress', async () => {
    const { controlSocket } = egressPaths(folder, join(folder, 'data'));
    const child = spawn('setpriv', [
      '--reuid=65534',
      '--regid=65534',
      '--clear-groups',
      'curl',
      '-sS',
      '--unix-socket',
      controlSocket,
      'http://x/sandboxes',
    ]);
    assert.notEqual((await once(child, 'close'))[0], 0);
  });
});
