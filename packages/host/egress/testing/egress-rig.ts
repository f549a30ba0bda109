import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, createSecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls';
import type { GatedSandbox } from '@cloche/protocol';
import { SETTINGS } from '@cloche/settings';
import { pino } from 'pino';
import { CertificateAuthority } from '../src/authority/certificate-authority.ts';
import type { DecisionRecord } from '../src/decisions/decision-log.ts';
import { GatedEgress, type GatedEgressOptions } from '../src/gated-egress.ts';
import type { SecretSource } from '../src/secrets/secret-source.ts';
import { egressShares, lookupShares } from '../src/shares/egress-shares.ts';
import type { Endpoint } from '../src/socket-options.ts';
import { SERVER_ADDRESS } from './test-servers.ts';
import { TinyDnsServer } from './tiny-dns-server.ts';

export const SANDBOX_ADDRESS = '127.0.9.1';
const SANDBOX_CIDR = '127.0.9.0/24';
/** The only address that sandboxes may reach. The rest of the loopback stays closed. */
const OPENED = `${SERVER_ADDRESS}/32`;

/** A source for tests without secrets. */
const NO_SECRETS: SecretSource = {
  find: async ({ questions }) => questions.map(() => undefined),
  close() {},
};

/** An egress on the loopback with one sandbox, a resolver, and an authority that issues the servers' certificates. */
export class EgressRig implements AsyncDisposable {
  readonly egress: GatedEgress;
  readonly resolver: TinyDnsServer;
  readonly serverAuthority: CertificateAuthority;
  readonly decisions: DecisionRecord[];
  /** Unexpected errors in handling a connection. */
  readonly failures: unknown[];
  readonly folder: string;
  /** Destination of the sandbox's connections before they were redirected. */
  destination: Endpoint = { address: '203.0.113.7', port: 80 };

  private constructor(
    parts: Pick<EgressRig, 'egress' | 'resolver' | 'serverAuthority' | 'decisions' | 'failures' | 'folder'>,
  ) {
    this.egress = parts.egress;
    this.resolver = parts.resolver;
    this.serverAuthority = parts.serverAuthority;
    this.decisions = parts.decisions;
    this.failures = parts.failures;
    this.folder = parts.folder;
  }

  static async open(policy: GatedSandbox['policy'], changes: Partial<GatedEgressOptions> = {}): Promise<EgressRig> {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-egress-'));
    const resolver = await TinyDnsServer.open();
    const serverAuthority = await CertificateAuthority.open(join(folder, 'servers'));
    const decisions: DecisionRecord[] = [];
    const failures: unknown[] = [];
    const log = pino({ level: 'debug' }, { write: (line) => collect(decisions, failures, JSON.parse(line)) });
    let rig: EgressRig | undefined;
    const egress = await GatedEgress.open({
      listen: { address: '127.0.0.1', tcpPort: 0, dnsPort: 0 },
      sandboxCidr: SANDBOX_CIDR,
      ranges: { allowCidrs: [OPENED], denyCidrs: [] },
      isOwnAddress: () => false,
      dnsUpstream: { address: '127.0.0.1', port: resolver.port },
      trust: createSecureContext({ ca: serverAuthority.certificate }),
      authorityDir: join(folder, 'authority'),
      controlSocket: join(folder, 'control.sock'),
      isTrusted: () => true,
      shares: egressShares(),
      secretSource: NO_SECRETS,
      lookupShares: lookupShares(),
      destinationOf: () => rig?.destination,
      idleTidyingMs: SETTINGS.CLOCHE_IDLE_TIDYING_MS.default,
      log,
      ...changes,
    });
    egress.sandboxes.put(SANDBOX_ADDRESS, { sandboxId: 'sbx_test', policy });
    rig = new EgressRig({ egress, resolver, serverAuthority, decisions, failures, folder });
    return rig;
  }

  setPolicy(policy: GatedSandbox['policy']): void {
    this.egress.sandboxes.put(SANDBOX_ADDRESS, { sandboxId: 'sbx_test', policy });
  }

  /** Makes these names resolve to the address of the tests' servers. */
  name(...names: string[]): void {
    for (const name of names) this.resolver.addresses.set(name, () => [SERVER_ADDRESS]);
  }

  /** Opens a connection of the sandbox, which goes to egress as if the host had redirected it. */
  connect(localAddress = SANDBOX_ADDRESS): Socket {
    const socket = connect({ port: this.egress.tcpPort, host: '127.0.0.1', localAddress });
    return socket.on('error', () => {});
  }

  /** Opens a TLS connection of the sandbox. The sandbox trusts only egress' authority. */
  async connectTls(options: ConnectionOptions): Promise<TLSSocket> {
    const socket = tlsConnect({ socket: this.connect(), ca: this.egress.authorityCertificate, ...options });
    await once(socket, 'secureConnect');
    return socket.on('error', () => {});
  }

  /** Sends bytes and resolves with everything received until the connection ends. */
  async send(bytes: string | Buffer, socket = this.connect()): Promise<string> {
    socket.write(bytes, 'latin1');
    return this.readAll(socket);
  }

  async readAll(socket: Socket): Promise<string> {
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    // Not `once`, which would reject when the connection is reset.
    if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
    return received;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.egress.close();
    await this.resolver[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true });
  }
}

function collect(
  decisions: DecisionRecord[],
  failures: unknown[],
  line: DecisionRecord & { operation: string; err?: unknown },
): void {
  if (line.operation === 'egress') decisions.push(line);
  if (line.operation === 'proxy') failures.push(line.err);
}
