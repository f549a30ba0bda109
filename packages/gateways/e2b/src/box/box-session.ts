import type { IncomingHttpHeaders } from 'node:http';
import type { CommandUser, FileUser, SandboxId } from '@cloche/contract';
import { GatewayError, loopbackClient } from '@cloche/kit';
import { type Cloche, Commands, Contexts, Files, isClocheError } from '@cloche/sdk';
import type { FastifyRequest } from 'fastify';
import { type Access, readAccessToken } from '../access-token.ts';
import type { E2bDeps } from '../e2b-deps.ts';

/** A sandbox as one request reaches it. */
export interface BoxSession {
  readonly cloche: Cloche;
  readonly sandboxId: SandboxId;
  readonly files: Files;
  readonly commands: Commands;
  readonly contexts: Contexts;
}

/**
 * Returns what the token of a request opens.
 *
 * SECURITY: the id alone opens nothing; held by "a token opens its own sandbox alone" in e2b-refusals.test.ts.
 *
 * @throws GatewayError 401
 */
export function accessOf(fields: IncomingHttpHeaders, { seal }: Pick<E2bDeps, 'seal'>): Access {
  const { 'e2b-sandbox-id': sandboxId, 'x-access-token': own, 'e2b-traffic-access-token': traffic } = fields;
  const access = readAccessToken(String(own ?? traffic), String(sandboxId), seal);
  if (!access) throw new GatewayError(401, 'The access token is missing or belongs to another sandbox.');
  return access;
}

/** Opens the sandbox that the fields of a request name. @throws GatewayError 401 */
export function openSession(fields: IncomingHttpHeaders, deps: E2bDeps): BoxSession {
  return sessionWith(accessOf(fields, deps), deps.apiUrl(), fields);
}

/** @param fields of the request, with the one that names its client to `/v1` */
export function sessionWith({ apiKey, sandboxId }: Access, url: string, fields: IncomingHttpHeaders): BoxSession {
  const cloche = loopbackClient(url, apiKey, fields);
  const id = sandboxId as SandboxId;
  return {
    cloche,
    sandboxId: id,
    files: new Files(cloche, id),
    commands: new Commands(cloche, id),
    contexts: new Contexts(cloche, id),
  };
}

/** Opens the sandbox of an HTTP request. @throws GatewayError 401 */
export function sessionOf({ headers }: FastifyRequest, deps: E2bDeps): BoxSession {
  return openSession(headers, deps);
}

/** Returns the user of `Authorization: Basic user:`, or of a query. @throws GatewayError 401 for any other user. */
export function userOf(name: string | undefined): CommandUser {
  if (name === undefined || name === '' || name === 'user') return 'user';
  if (name === 'root') return 'root';
  throw new GatewayError(401, `There is no user "${name}" in the sandbox; use user or root.`);
}

/** Returns how E2B's service works on files: as root, and what it creates belongs to the user of the request. */
export function rightsOf(user: CommandUser): FileUser {
  return user === 'root' ? 'root' : 'root:user';
}

/** Resolves a path as E2B does: relative paths and `~` begin in the user's home. */
export function pathOf(path: string, user: CommandUser): string {
  const home = user === 'root' ? '/root' : '/home/user';
  if (path === '' || path === '~') return home;
  if (path.startsWith('~/')) return `${home}/${path.slice(2)}`;
  return path.startsWith('/') ? path : `${home}/${path}`;
}

/** Returns whether the error means that the sandbox no longer runs. */
export function isGone(error: unknown): boolean {
  if (isClocheError(error, 'sandbox_destroyed', 'sandbox_failed')) return true;
  return isClocheError(error, 'not_found') && error.details?.resource === 'sandbox';
}
