import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPlaces } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { firstNameserver, parseUpstream, type Upstream } from './dns/upstream.ts';

/** What hostd leaves for egress before it is ready. */
const NetworkFile = Type.Object({
  gatewayAddress: Type.String(),
  dnsPort: Type.Integer({ minimum: 1, maximum: 65_535 }),
  sandboxCidr: Type.String(),
});

export interface EgressConfig {
  network: Static<typeof NetworkFile>;
  dnsUpstream: Upstream;
  logLevel: string;
}

/** Reads all that egress is told, once. Throws what is missing or wrong. */
export function readConfig(env: NodeJS.ProcessEnv): EgressConfig {
  const runDir = env.CLOCHE_RUN_DIR;
  if (!runDir) throw new Error('configuration: CLOCHE_RUN_DIR is missing');
  const networkFile = join(runPlaces(runDir).egressDir, 'network.json');
  return Object.freeze({
    network: Value.Parse(NetworkFile, JSON.parse(readFileSync(networkFile, 'utf8'))),
    dnsUpstream: env.CLOCHE_DNS_UPSTREAM ? parseUpstream(env.CLOCHE_DNS_UPSTREAM) : hostsOwnResolver(),
    logLevel: env.CLOCHE_LOG_LEVEL || 'info',
  });
}

function hostsOwnResolver(): Upstream {
  const upstream = firstNameserver(readFileSync('/etc/resolv.conf', 'utf8'));
  if (!upstream) throw new Error('/etc/resolv.conf names no resolver: set CLOCHE_DNS_UPSTREAM');
  return upstream;
}
