import { type CreateSandboxBody, LIMITS } from '@cloche/contract';
import { ENVIRONMENT, METADATA, NAME } from '../bounded-schemas.ts';
import { E2bError } from '../e2b-error.ts';
import { slugOf } from './template-name.ts';

const EVERYWHERE = new Set(['0.0.0.0/0', '0.0.0.0/0,::/0']);
/** Features of E2B that Cloche would otherwise ignore silently. */
const NOT_YET = ['autoPause', 'autoPauseMemory', 'mcp', 'iam', 'volumeMounts'] as const;

interface Network {
  readonly allowOut?: readonly string[] | null;
  readonly denyOut?: readonly string[] | null;
  readonly allowPublicTraffic?: boolean | null;
  readonly rules?: unknown;
  readonly egressProxy?: unknown;
}

export interface CreateRequest {
  readonly templateID: string;
  readonly timeout?: number;
  readonly metadata?: Record<string, string> | null;
  readonly envVars?: Record<string, string> | null;
  readonly allow_internet_access?: boolean | null;
  readonly network?: Network | null;
  readonly autoResume?: { readonly enabled?: boolean } | null;
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
      timeout: { type: 'integer', minimum: 0, maximum: 86_400 },
      metadata: METADATA,
      envVars: ENVIRONMENT,
      allow_internet_access: { type: ['boolean', 'null'] },
      network: { type: ['object', 'null'], properties: { allowOut: hosts, denyOut: hosts } },
    },
  },
};

/** @throws E2bError for a feature that Cloche does not have. */
export function createBody(request: CreateRequest): Omit<CreateSandboxBody, 'ttlMs'> {
  refuseUnknownFeatures(request);
  const policy = networkPolicy(request);
  return {
    template: slugOf(request.templateID),
    ...(request.metadata && { metadata: request.metadata }),
    ...(request.envVars && { env: request.envVars }),
    ...(policy && { networkPolicy: policy }),
  };
}

function refuseUnknownFeatures(request: CreateRequest): void {
  const given = NOT_YET.filter((field) => isSet(request[field]));
  if (request.autoResume?.enabled) given.push('autoResume' as (typeof NOT_YET)[number]);
  if (given.length > 0) throw new E2bError(400, `Cloche does not have ${given.join(', ')} yet; leave it out.`);
}

function isSet(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

function networkPolicy({ allow_internet_access, network }: CreateRequest): CreateSandboxBody['networkPolicy'] {
  if (isSet(network?.rules) || isSet(network?.egressProxy)) {
    throw new E2bError(400, 'Cloche does not have network.rules and network.egressProxy yet; leave them out.');
  }
  if (network?.allowPublicTraffic) {
    throw new E2bError(400, 'Ports of a sandbox need its trafficAccessToken; leave network.allowPublicTraffic out.');
  }
  if (allow_internet_access === false) return { mode: 'deny-all' };
  const denied = network?.denyOut ?? [];
  const allowed = network?.allowOut ?? [];
  const deniesAll = denied.some((entry) => EVERYWHERE.has(entry));
  if (!deniesAll && allowed.length > 0 && denied.length > 0) {
    throw new E2bError(400, 'network.denyOut must be 0.0.0.0/0 if network.allowOut is given.');
  }
  if (allowed.length > 0 && deniesAll) return { mode: 'allowlist', hosts: [...allowed] };
  if (deniesAll) return { mode: 'deny-all' };
  return denied.length > 0 ? { mode: 'denylist', hosts: [...denied] } : undefined;
}
