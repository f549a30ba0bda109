/** Checks of a creation request that its schema cannot express. */
import {
  type CreateSandboxBody,
  type Issue,
  LIMITS,
  type Metadata,
  mapBytes,
  type NetworkPolicy,
  normalizeNetworkPolicy,
  type Resources,
  type StartCommand,
} from '@cloche/contract';
import { AppError, invalidRequest } from '../../../platform/base/app-error.ts';
import type { ResolvedResources } from '../../sandbox-records/sandbox.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { checkPause } from './plan-pause.ts';

export interface CheckedCreation {
  readonly ttlMs: number;
  readonly networkPolicy: NetworkPolicy;
  readonly resources: ResolvedResources;
}

/** @throws AppError `invalid_request` with every issue of the body; otherwise `sandbox_ttl_exceeded` for a long TTL. */
export function checkCreation(body: CreateSandboxBody, settings: SandboxSettings): CheckedCreation {
  const issues: Issue[] = [];
  checkMap(body.metadata, 'body.metadata', LIMITS.metadataBytes, issues);
  checkMap(body.env, 'body.env', LIMITS.envBytes, issues);
  for (const [name, value] of Object.entries(body.env ?? {})) {
    if (value.includes('\0')) issues.push({ path: `body.env.${name}`, message: 'must not contain a NUL character' });
  }
  checkSecrets(body, issues);
  checkPause(body, settings, issues);
  checkStartCommand(body.startCommand, issues);
  const resources = { ...settings.defaultResources, ...body.resources };
  checkResources(resources, settings.maxResources, issues);
  const networkPolicy = checkNetworkPolicy(body.networkPolicy ?? { mode: 'unrestricted' }, issues);
  const [first, ...others] = issues;
  if (first) throw invalidRequest(first, ...others);
  return { ttlMs: checkTtl(body.ttlMs), resources, networkPolicy };
}

const RESOURCES = ['cpu', 'memoryMb', 'diskMb', 'pids'] as const;

/**
 * Returns the resources of a sandbox whose template version has defaults of its own. A default above the operator's
 * maximum, which may have changed since the build, is lowered to it.
 */
export function resourcesOfVersion(
  ofVersion: Resources,
  body: Pick<CreateSandboxBody, 'resources'>,
  { defaultResources, maxResources }: SandboxSettings,
): ResolvedResources {
  const resources = { ...defaultResources, ...ofVersion, ...body.resources };
  return Object.fromEntries(
    RESOURCES.map((name) => [name, Math.min(resources[name], maxResources[name])]),
  ) as ResolvedResources;
}

function checkStartCommand(start: StartCommand | undefined, issues: Issue[]): void {
  if (!start) return;
  const { command, env = {} } = start;
  const words = typeof command === 'string' ? [command] : command;
  if (words[0] === '') issues.push({ path: 'body.startCommand.command.0', message: 'must name a program' });
  const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), mapBytes(env));
  if (bytes <= LIMITS.startCommandBytes) return;
  const message = `has ${bytes} bytes of UTF-8 with its environment; at most ${LIMITS.startCommandBytes} are allowed`;
  issues.push({ path: 'body.startCommand', message });
}

/** Secrets and `env` set variables of the same environment. */
function checkSecrets({ env = {}, secrets = {} }: CreateSandboxBody, issues: Issue[]): void {
  const names = Object.keys(secrets);
  for (const name of names) {
    if (Object.hasOwn(env, name)) issues.push({ path: `body.secrets.${name}`, message: 'is set by body.env too' });
  }
  if (names.length + Object.keys(env).length <= LIMITS.envEntries) return;
  issues.push({ path: 'body.secrets', message: `has more than ${LIMITS.envEntries} variables together with body.env` });
}

/** @throws AppError `invalid_request` for labels that are too long together */
export function requireMetadata(metadata: Metadata): void {
  const issues: Issue[] = [];
  checkMap(metadata, 'body.metadata', LIMITS.metadataBytes, issues);
  const [issue] = issues;
  if (issue) throw invalidRequest(issue);
}

function checkMap(
  map: Readonly<Record<string, string>> | undefined,
  path: string,
  maxBytes: number,
  issues: Issue[],
): void {
  const bytes = mapBytes(map ?? {});
  if (bytes <= maxBytes) return;
  issues.push({
    path,
    message: `has ${bytes} bytes of UTF-8 in keys and values together; at most ${maxBytes} are allowed`,
  });
}

export function checkResources(resources: ResolvedResources, max: ResolvedResources, issues: Issue[]): void {
  for (const name of RESOURCES) {
    if (resources[name] <= max[name]) continue;
    issues.push({ path: `body.resources.${name}`, message: `must be at most ${max[name]}, the operator's maximum` });
  }
}

/** Returns the normalized policy. Returns an invalid policy unchanged, and adds its problems to `issues`. */
function checkNetworkPolicy(policy: NetworkPolicy, issues: Issue[]): NetworkPolicy {
  const normalized = normalizeNetworkPolicy(policy);
  if (normalized.ok) return normalized.policy;
  issues.push(...normalized.issues.map(({ path, message }) => ({ path: `body.networkPolicy.${path}`, message })));
  return policy;
}

function checkTtl(ttlMs: number = LIMITS.createTtlDefaultMs): number {
  if (ttlMs <= LIMITS.createTtlMaxMs) return ttlMs;
  const message = `body.ttlMs must be at most ${LIMITS.createTtlMaxMs} (1 hour) at creation; extend the sandbox later for more.`;
  throw new AppError('sandbox_ttl_exceeded', message, { details: { maxTtlMs: LIMITS.createTtlMaxMs } });
}
