import { OwnAddresses } from '@cloche/node-support';
import { EGRESS_PORTS } from '@cloche/protocol';
import { pino } from 'pino';
import { readConfig } from './config.ts';
import { DnsRelay } from './dns-relay/dns-relay.ts';
import { GatedEgress } from './gated-egress.ts';
import { SecretClient } from './secrets/secret-source.ts';
import { affordableFraction, descriptorLimit, egressShares, lookupShares } from './shares/egress-shares.ts';
import { originalDestination } from './socket-options.ts';
import { trustedRoots } from './upstream/trusted-roots.ts';

const { network, dnsUpstream, logLevel, paths, extraCaFile, ranges, idleTidyingMs } = await readConfig(process.env);
const { gatewayAddress, sandboxCidr } = network;
const log = pino({ name: 'egress', level: logLevel });
/** Fraction of each total in `MOST` that the process's descriptor limit suffices for. */
const part = affordableFraction(descriptorLimit());
const relay = await DnsRelay.open({
  listen: { address: gatewayAddress, port: network.dnsPort },
  upstream: dnsUpstream,
  sandboxCidr,
  shares: lookupShares(part),
  log,
});
const ownAddresses = new OwnAddresses();
const gated = await GatedEgress.open({
  listen: { address: gatewayAddress, tcpPort: EGRESS_PORTS.tcp, dnsPort: EGRESS_PORTS.dns },
  sandboxCidr,
  ranges,
  isOwnAddress: (address) => ownAddresses.has(address),
  dnsUpstream,
  trust: trustedRoots(extraCaFile),
  authorityDir: paths.authorityDir,
  controlSocket: paths.controlSocket,
  shares: egressShares(part),
  secretSource: new SecretClient(paths.secretsSocket),
  lookupShares: lookupShares(part),
  destinationOf: originalDestination,
  idleTidyingMs,
  log,
});
log.info({ operation: 'start', outcome: 'serving', ...network, dnsUpstream });

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    stop().catch((err: unknown) => {
      log.error({ operation: 'stop', outcome: 'failed', err });
      process.exit(1);
    });
  });
}

async function stop(): Promise<void> {
  await Promise.all([relay.close(), gated.close()]);
  log.info({ operation: 'stop', outcome: 'closed' });
  process.exit(0);
}
