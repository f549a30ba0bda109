/**
 * Creates a small internet for a test: one host in a network namespace, with several addresses in documentation ranges.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import { type TestAuthority, testAuthority } from './test-authority.ts';
import type { InternetHost, Seen } from './test-internet-host.ts';

export interface TestInternet extends AsyncDisposable {
  /**
   * Answers HTTP on ports 80 and 8000, leniently on 8002, HTTP/2 without TLS on 8003, HTTPS on 443, HTTPS with an
   * untrusted certificate on 8443, and behind records of other types on 8444, `reached` to connections on 7000 and to
   * datagrams there and on 123, 443 and 4433, and DNS on 53, over TLS on 853, and to `?dns=` over HTTP: `cloche.test`
   * is itself. The body for `?mebibytes=` has that size.
   */
  readonly address: string;
  /** Another address of the same host, which answers DNS as well. */
  readonly otherAddress: string;
  /** Address of the same host in a private range, which the test's machine can reach and sandboxes may not. */
  readonly privateAddress: string;
  /**
   * The same host under addresses that are closed, other than private ones: in special ranges, and for an operator to
   * close.
   */
  readonly specialAddresses: readonly string[];
  readonly addressToClose: string;
  /** Address of this machine on that network, which answers HTTP on port 8001. */
  readonly hostAddress: string;
  readonly authority: TestAuthority;
  /** Network namespace of the host, for further servers. End them before the test internet. */
  readonly namespace: string;
  /** Returns all traffic that has reached the host so far, from any sender. */
  seen(): Promise<Seen>;
}

/** Names that resolve to `address`. */
const AT_ADDRESS = ['cloche.test', 'allowed.test', 'wild.test', '*.wild.test', 'deep.a.wild.test', '*.data.test'];
/** Names that resolve to `otherAddress`. */
const AT_OTHER_ADDRESS = ['denied.test', '*.denied.test', 'untrusted.test'];

export async function testInternet(): Promise<TestInternet> {
  const network = await claimNetwork();
  const name = namespaceOf(network);
  const address = `203.0.113.${network}`;
  const otherAddress = `198.51.100.${network}`;
  const hostAddress = `203.0.113.${network + 100 > 254 ? network - 100 : network + 100}`;
  const privateAddress = `10.213.${network}.2`;
  const specialAddresses = [`192.0.0.${network}`, `192.88.99.${network}`];
  const addressToClose = `198.51.100.${network - 99}`;
  const hostLink = `ie2e${network}`;
  const children: ChildProcess[] = [];
  let authority: TestAuthority | undefined;
  const undo = async () => {
    for (const child of children) child.kill('SIGKILL');
    await execa('ip', ['netns', 'delete', name], { reject: false });
    await execa('ip', ['link', 'delete', hostLink], { reject: false });
    authority?.[Symbol.dispose]();
  };
  const names = Object.fromEntries([
    ...AT_ADDRESS.map((there) => [there, [address]]),
    ...AT_OTHER_ADDRESS.map((there) => [there, [otherAddress]]),
    ['private.test', [privateAddress]],
    ['changing.test', [address, privateAddress]],
  ]);
  try {
    authority = await testAuthority([...AT_ADDRESS, ...AT_OTHER_ADDRESS], [address, otherAddress]);
    const addresses = [address, otherAddress, privateAddress, ...specialAddresses, addressToClose];
    await makeNetwork({ name, hostLink, hostAddress, addresses });
    const { certFile, keyFile, unknownCertFile } = authority;
    const tls = { certFile, keyFile, unknownCertFile };
    const resolvers = [address, otherAddress];
    const theirs: InternetHost = { httpAddress: '0.0.0.0', httpPorts: [80, 8000], addresses, resolvers, names, tls };
    const ours: InternetHost = { httpAddress: hostAddress, httpPorts: [8001], addresses: [], resolvers: [], names: {} };
    children.push(await started(['ip', 'netns', 'exec', name, ...servers(theirs)]));
    children.push(await started(servers(ours)));
  } catch (error) {
    await undo();
    throw error;
  }
  const seen = async () => (await (await fetch(`http://${address}:8000/seen`)).json()) as Seen;
  const closed = { privateAddress, specialAddresses, addressToClose };
  return {
    address,
    namespace: name,
    otherAddress,
    ...closed,
    hostAddress,
    authority,
    seen,
    [Symbol.asyncDispose]: undo,
  };
}

function namespaceOf(network: number): string {
  return `cl-e2e-${network}`;
}

/** Creates the namespace of a number between 100 and 199 that no other test internet has: two files may run at once. */
async function claimNetwork(): Promise<number> {
  for (let tried = 0; tried < 100; tried += 1) {
    const network = 100 + ((process.pid + tried) % 100);
    const { failed, stderr } = await execa('ip', ['netns', 'add', namespaceOf(network)], { reject: false });
    if (!failed) return network;
    if (!stderr.includes('File exists')) throw new Error(stderr);
  }
  throw new Error('every network of test internets is in use; delete those of ended tests: ip netns list');
}

interface Network {
  name: string;
  hostLink: string;
  hostAddress: string;
  addresses: readonly string[];
}

async function makeNetwork({ name, hostLink, hostAddress, addresses }: Network): Promise<void> {
  const ip = (...args: string[]) => execa('ip', args);
  await ip('link', 'add', hostLink, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
  await ip('address', 'add', `${hostAddress}/32`, 'dev', hostLink);
  await ip('link', 'set', hostLink, 'up');
  for (const there of addresses) {
    await ip('-n', name, 'address', 'add', `${there}/32`, 'dev', 'eth0');
    await ip('route', 'add', `${there}/32`, 'dev', hostLink);
  }
  await ip('-n', name, 'link', 'set', 'lo', 'up');
  await ip('-n', name, 'link', 'set', 'eth0', 'up');
  await ip('-n', name, 'route', 'add', `${hostAddress}/32`, 'dev', 'eth0');
  await ip('-n', name, 'route', 'add', 'default', 'via', hostAddress, 'dev', 'eth0', 'onlink');
}

function servers(host: InternetHost): string[] {
  return [process.execPath, new URL('./test-internet-host.ts', import.meta.url).pathname, JSON.stringify(host)];
}

/** Resolves with the process after its first line. Rejects when it ends before. */
async function started([command, ...args]: string[]): Promise<ChildProcess> {
  const child = spawn(command ?? '', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const end = once(child, 'exit').then(() => Promise.reject(new Error('a server of the test internet did not start')));
  await Promise.race([once(createInterface(child.stdout), 'line'), end]);
  end.catch(() => undefined);
  return child;
}
