import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPlaces } from '@cloche/layout';
import { SERVICE_IDLE_MS } from '@cloche/node-support';
import { egressPlaces, type OperatorRanges, readOperatorRanges } from '@cloche/protocol';
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
  const runDir = required(env, 'CLOCHE_RUN_DIR');
  const networkFile = join(runPlaces(runDir).egressDir, 'network.json');
  return Object.freeze({
    network: Value.Parse(NetworkFile, JSON.parse(readFileSync(networkFile, 'utf8'))),
    dnsUpstream: env.CLOCHE_DNS_UPSTREAM ? parseUpstream(env.CLOCHE_DNS_UPSTREAM) : hostsOwnResolver(),
    places: egressPlaces(runDir, required(env, 'CLOCHE_DATA_DIR')),
    extraCaFile: env.CLOCHE_EGRESS_EXTRA_CA || undefined,
    ranges: readOperatorRanges(env),
    idleTidyingMs: milliseconds(env, 'CLOCHE_IDLE_TIDYING_MS') ?? SERVICE_IDLE_MS,
    logLevel: env.CLOCHE_LOG_LEVEL || 'info',
  });
}

function required(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name];
  if (!value) throw new Error(`configuration: ${name} is missing`);
  return value;
}

function milliseconds(env: NodeJS.ProcessEnv, name: string): number | undefined {
  const value = env[name];
  if (!value) return undefined;
  if (!/^[1-9][0-9]{0,8}$/.test(value)) throw new Error(`configuration: ${name} is no whole number of milliseconds`);
  return Number(value);
}

function hostsOwnResolver(): Upstream {
  const upstream = firstNameserver(readFileSync('/etc/resolv.conf', 'utf8'));
  if (!upstream) throw new Error('/etc/resolv.conf names no resolver: set CLOCHE_DNS_UPSTREAM');
  return upstream;
}
