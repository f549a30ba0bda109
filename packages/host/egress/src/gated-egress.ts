import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { collectGarbageWhenIdle } from '@cloche/node-support';
import type { ClosedAddresses, OperatorRanges } from '@cloche/settings';
import type { Logger } from 'pino';
import { Gauge, Registry } from 'prom-client';
import { CertificateAuthority } from './authority/certificate-authority.ts';
import { LeafContexts } from './authority/leaf-contexts.ts';
import { type ControlServerDeps, openControlServer } from './control/control-server.ts';
import { DecisionLog } from './decisions/decision-log.ts';
import type { Upstream } from './dns/upstream.ts';
import { DnsRelay } from './dns-relay/dns-relay.ts';
import { planGatedLookup } from './dns-relay/gated-lookups.ts';
import { closedToSandboxes } from './policy/closed-addresses.ts';
import { Gateway } from './proxy/gateway.ts';
import { GatedSandboxes } from './sandboxes/gated-sandboxes.ts';
import type { SecretSource } from './secrets/secret-source.ts';
import type { EgressShares, LookupShares } from './shares/egress-shares.ts';
import type { Endpoint } from './socket-options.ts';
import { Connector } from './upstream/connector.ts';

export interface GatedEgressOptions {
  listen: { address: string; tcpPort: number; dnsPort: number };
  sandboxCidr: string;
  ranges: OperatorRanges;
  isOwnAddress: (address: string) => boolean;
  dnsUpstream: Upstream;
  trust: SecureContext;
  authorityDir: string;
  controlSocket: string;
  isTrusted?: NonNullable<ControlServerDeps['isTrusted']>;
  shares: EgressShares;
  secretSource: SecretSource;
  lookupShares: LookupShares;
  destinationOf: (socket: Socket) => Endpoint | undefined;
  headersTimeoutMs?: number;
  /** Time after the last message of hostd after which unused memory is returned. */
  idleTidyingMs: number;
  log: Logger;
}

/** Everything that filters and proxies the traffic of gated sandboxes. */
export class GatedEgress implements AsyncDisposable {
  readonly sandboxes: GatedSandboxes;
  readonly authorityCertificate: string;
  readonly #parts: { close(): unknown }[] = [];
  #tcpPort = 0;
  #dnsPort = 0;

  private constructor(sandboxes: GatedSandboxes, authority: CertificateAuthority) {
    this.sandboxes = sandboxes;
    this.authorityCertificate = authority.certificate;
  }

  /** Resolves when traffic is accepted and the control socket is served. If it rejects, everything is closed again. */
  static async open(options: GatedEgressOptions): Promise<GatedEgress> {
    const { sandboxCidr, ranges, isOwnAddress, dnsUpstream, trust } = options;
    const authority = await CertificateAuthority.open(options.authorityDir);
    const closed = closedToSandboxes({ ranges, sandboxCidr, isOwnAddress });
    const connector = new Connector({ dnsUpstream, closed, trust });
    const egress = new GatedEgress(new GatedSandboxes({ connector, ...options }), authority);
    try {
      await egress.#openParts(options, { authority, closed });
    } catch (error) {
      await egress.close();
      throw error;
    }
    return egress;
  }

  /** Port for redirected TCP connections. */
  get tcpPort(): number {
    return this.#tcpPort;
  }

  get dnsPort(): number {
    return this.#dnsPort;
  }

  /** Ends all traffic. Idempotent. */
  async close(): Promise<void> {
    this.sandboxes.clear();
    for (const part of this.#parts.splice(0).reverse()) await part.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #openParts(
    options: GatedEgressOptions,
    { authority, closed }: { authority: CertificateAuthority; closed: ClosedAddresses },
  ): Promise<void> {
    const { sandboxes } = this;
    this.#parts.push(options.secretSource);
    const { listen, sandboxCidr, dnsUpstream, log, destinationOf, headersTimeoutMs } = options;
    const registry = new Registry();
    const decisions = new DecisionLog(log, registry);
    this.#parts.push({ close: () => decisions.endWindow() });
    registerGauges(registry, options.shares);
    const gateway = await Gateway.open({
      listen: { address: listen.address, port: listen.tcpPort },
      sandboxes,
      leaves: new LeafContexts(authority),
      decisions,
      destinationOf,
      log,
      ...(headersTimeoutMs !== undefined && { headersTimeoutMs }),
    });
    this.#parts.push(gateway);
    this.#tcpPort = gateway.port;
    const lookups = await DnsRelay.open({
      listen: { address: listen.address, port: listen.dnsPort },
      upstream: dnsUpstream,
      sandboxCidr,
      shares: options.lookupShares,
      log,
      plan: planGatedLookup({ sandboxes, closed, decisions }),
    });
    this.#parts.push(lookups);
    this.#dnsPort = lookups.port;
    const { controlSocket: socketPath, isTrusted } = options;
    const { certificate: authorityCertificate } = authority;
    const control = {
      socketPath,
      sandboxes,
      authorityCertificate,
      registry,
      decisions: decisions.recent,
      log,
      ...(isTrusted && { isTrusted }),
    };
    const controlServer = await openControlServer(control);
    this.#parts.push(controlServer);
    // hostd sends a message whenever a gated sandbox starts or ends.
    const tidying = collectGarbageWhenIdle(
      controlServer.server,
      options.idleTidyingMs,
      () => sandboxes.connectionCount > 0,
    );
    this.#parts.push({ close: () => tidying.stop() });
  }
}

function registerGauges(registry: Registry, { connections, serverConnections }: EgressShares): void {
  for (const [name, help, share] of [
    ['cloche_egress_connections', 'Open connections of gated sandboxes.', connections],
    ['cloche_egress_server_connections', 'Connections to servers, open or being opened.', serverConnections],
  ] as const) {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(share.total);
      },
    });
  }
}
