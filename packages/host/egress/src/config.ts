import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPaths } from '@cloche/layout';
import { egressPaths } from '@cloche/protocol';
import { type OperatorRanges, readOperatorRanges, readSettings } from '@cloche/settings';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { firstNameserver, parseUpstream, type Upstream } from './dns/upstream.ts';
import { untilWritten } from './until-written.ts';

/** The file that hostd writes before it starts egress. */
const NetworkFile = Type.Object({
  gatewayAddress: Type.String(),
  /** Port of the DNS relay for sandboxes that are not gated. */
  dnsPort: Type.Integer({ minimum: 1, maximum: 65_535 }),
  sandboxCidr: Type.String(),
});

export interface EgressConfig {
  network: Static<typeof NetworkFile>;
  dnsUpstream: Upstream;
  paths: ReturnType<typeof egressPaths> & Pick<ReturnType<typeof runPaths>, 'secretsSocket'>;
  /** File with additional root certificates for checking servers. */
  extraCaFile: string | undefined;
  ranges: OperatorRanges;
  /** Time after the last message of hostd after which unused memory is returned. */
  idleTidyingMs: number;
  logLevel: string;
}

/** Reads the settings, and hostd's file once it is written. Throws for a missing or invalid value. */
export async function readConfig(env: NodeJS.ProcessEnv): Promise<EgressConfig> {
  const { values, problems } = readSettings('egress', env, {});
  const { CLOCHE_RUN_DIR: runDir, CLOCHE_DNS_UPSTREAM: upstream } = values;
  if (problems.length > 0) throw new Error(`configuration: ${problems.join('; ')}`);
  if (runDir === undefined) throw new Error('configuration: CLOCHE_RUN_DIR is missing');
  const networkFile = join(runPaths(runDir).egressDir, 'network.json');
  // The unit of egress starts beside that of hostd.
  await untilWritten(networkFile);
  return Object.freeze({
    network: Value.Parse(NetworkFile, JSON.parse(readFileSync(networkFile, 'utf8'))),
    dnsUpstream: upstream ? parseUpstream(upstream) : hostsOwnResolver(),
    paths: { ...egressPaths(runDir, values.CLOCHE_DATA_DIR), secretsSocket: runPaths(runDir).secretsSocket },
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
