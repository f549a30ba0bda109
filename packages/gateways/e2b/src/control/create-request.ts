import { type CreateSandboxBody, LIMITS } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { ENVIRONMENT, METADATA, NAME } from '../bounded-schemas.ts';
import type { Equipment } from '../e2b-deps.ts';
import { FLAG, PAUSE_FIELDS, PAUSE_PROPERTIES, type PauseRequest, pausePolicyOf } from './pause-policy.ts';
import { slugOf } from './template-name.ts';

const EVERYWHERE = new Set(['0.0.0.0/0', '0.0.0.0/0,::/0']);
/** Features of E2B that Cloche would otherwise ignore silently. */
const NOT_YET = ['iam', 'volumeMounts'] as const;
/** Features of `network` that Cloche does not have. Each decides what a sandbox reaches, or what reaches it. */
const NETWORK_NOT_YET = ['rules', 'egressProxy', 'maskRequestHost'] as const;
/** What Cloche does, or what changes nothing: `secure`, because a token is always needed, and clients start `mcp`. */
const KNOWN: ReadonlySet<string> = new Set([
  ...['templateID', 'timeout', 'metadata', 'envVars', 'allow_internet_access', 'network', 'secure', 'mcp'],
  ...[...PAUSE_FIELDS, ...NOT_YET],
]);
const KNOWN_IN_NETWORK: ReadonlySet<string> = new Set([
  ...['allowOut', 'denyOut', 'allowPublicTraffic', ...NETWORK_NOT_YET],
]);

interface Network {
  readonly allowOut?: readonly string[] | null;
  readonly denyOut?: readonly string[] | null;
  readonly allowPublicTraffic?: boolean | null;
  readonly [field: string]: unknown;
}

export interface CreateRequest extends PauseRequest {
  readonly templateID: string;
  readonly metadata?: Record<string, string> | null;
  readonly envVars?: Record<string, string> | null;
  readonly allow_internet_access?: boolean | null;
  readonly network?: Network | null;
  readonly [field: string]: unknown;
}

const hosts = { type: ['array', 'null'], items: NAME, maxItems: LIMITS.networkHosts };

/** Checked before the translation. `/v1` then checks the values. */
export const CREATE_SCHEMA = {
  body: {
    type: 'object',
    required: ['templateID'],
    properties: {
      templateID: { ...NAME, minLength: 1 },
      metadata: METADATA,
      envVars: ENVIRONMENT,
      allow_internet_access: FLAG,
      network: {
        type: ['object', 'null'],
        properties: { allowOut: hosts, denyOut: hosts, allowPublicTraffic: FLAG },
      },
      secure: FLAG,
      ...PAUSE_PROPERTIES,
    },
  },
};

/** @throws GatewayError for a feature that Cloche does not have. */
export function createBody(request: CreateRequest): Omit<CreateSandboxBody, 'ttlMs'> {
  refuseUnknownFeatures(request);
  const policy = networkPolicy(request);
  return {
    template: slugOf(request.templateID),
    pause: pausePolicyOf(request),
    ...(request.metadata && { metadata: request.metadata }),
    ...(request.envVars && { env: request.envVars }),
    ...(policy && { networkPolicy: policy }),
  };
}

/** Returns what the sandbox gets beside what `/v1` gives it. E2B's ports are public unless the client says otherwise. */
export function equipmentOf({ network }: CreateRequest): Equipment {
  return { publicPorts: network?.allowPublicTraffic !== false };
}

function refuseUnknownFeatures(request: CreateRequest): void {
  const { network } = request;
  const given: string[] = NOT_YET.filter((field) => isSet(request[field]));
  given.push(...NETWORK_NOT_YET.filter((field) => isSet(network?.[field])).map((field) => `network.${field}`));
  if (given.length > 0) throw new GatewayError(400, `Cloche does not have ${given.join(', ')} yet; leave it out.`);
}

/** Returns the unknown fields of a creation, which are ignored. */
export function ignoredFields(request: CreateRequest): string[] {
  const fields = Object.keys(request).filter((field) => !KNOWN.has(field));
  const ofNetwork = Object.keys(request.network ?? {}).filter((field) => !KNOWN_IN_NETWORK.has(field));
  return [...fields, ...ofNetwork.map((field) => `network.${field}`)];
}

function isSet(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

function networkPolicy({ allow_internet_access, network }: CreateRequest): CreateSandboxBody['networkPolicy'] {
  if (allow_internet_access === false) return { mode: 'deny-all' };
  const denied = network?.denyOut ?? [];
  const allowed = network?.allowOut ?? [];
  const deniesAll = denied.some((entry) => EVERYWHERE.has(entry));
  if (!deniesAll && allowed.length > 0 && denied.length > 0) {
    throw new GatewayError(400, 'network.denyOut must be 0.0.0.0/0 if network.allowOut is given.');
  }
  if (allowed.length > 0 && deniesAll) return { mode: 'allowlist', hosts: [...allowed] };
  if (deniesAll) return { mode: 'deny-all' };
  return denied.length > 0 ? { mode: 'denylist', hosts: [...denied] } : undefined;
}
