import { pino } from 'pino';
import { readConfig } from './config.ts';
import { DnsRelay } from './dns/dns-relay.ts';

const { network, dnsUpstream, logLevel } = readConfig(process.env);
const log = pino({ name: 'egress', level: logLevel });
const relay = await DnsRelay.open({
  listen: { address: network.gatewayAddress, port: network.dnsPort },
  upstream: dnsUpstream,
  sandboxCidr: network.sandboxCidr,
  log,
});
log.info({ operation: 'start', outcome: 'serving', ...network, dnsUpstream });

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, async () => {
    await relay.close();
    log.info({ operation: 'stop', outcome: 'closed' });
    process.exit(0);
  });
}
