import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPlaces } from '@cloche/layout';
import { egressPlaces, type OperatorRanges, readOperatorRanges } from '@cloche/protocol';
import { readSettings } from '@cloche/settings';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { firstNameserver, parseUpstream, type Upstream } from './dns/upstream.ts';

/** What hostd leaves for egress before it is ready. */
const NetworkFile = Type.Object({
  gatewayAddress: Type.String(),
  /** Of sandboxes that are not gated. */
  dnsPort: Type.Integer({ minimum: 1, maximum: 65_535 }),
  sandboxCidr: Type.String(),
});

export interface EgressConfig {
  network: Static<typeof NetworkFile>;
  dnsUpstream: Upstream;
  places: ReturnType<typeof egressPlaces>;
  /** A file of further roots that servers' certificates are checked against. */
  extraCaFile: string | undefined;
  ranges: OperatorRanges;
  /** So long after the last message of hostd, memory is given back. */
  idleTidyingMs: number;
  logLevel: string;
}

/** Reads all that egress is told, once. Throws what is missing or wrong. */
export function readConfig(env: NodeJS.ProcessEnv): EgressConfig {
  const { values, problems } = readSettings('egress', env, {});
  const { CLOCHE_RUN_DIR: runDir, CLOCHE_DNS_UPSTREAM: upstream } = values;
  if (problems.length > 0) throw new Error(`configuration: ${problems.join('; ')}`);
  if (runDir === undefined) throw new Error('configuration: CLOCHE_RUN_DIR is missing');
  const networkFile = join(runPlaces(runDir).egressDir, 'network.json');
  return Object.freeze({
    network: Value.Parse(NetworkFile, JSON.parse(readFileSync(networkFile, 'utf8'))),
    dnsUpstream: upstream ? parseUpstream(upstream) : hostsOwnResolver(),
    places: egressPlaces(runDir, values.CLOCHE_DATA_DIR),
    extraCaFile: values.CLOCHE_EGRESS_EXTRA_CA,
    ranges: readOperatorRanges(values),
    idleTidyingMs: values.CLOCHE_IDLE_TIDYING_MS,
    logLevel: values.CLOCHE_LOG_LEVEL,
  });
}

function hostsOwnResolver(): Upstream {
  const upstream = firstNameserver(readFileSync('/etc/resolv.conf', 'utf8'));
  if (!upstream) throw new Error('/etc/resolv.conf names no resolver: set CLOCHE_DNS_UPSTREAM');
  return upstream;
}
