import { GatewayError } from '@cloche/kit';
import type { Sandbox } from '@cloche/sdk';
import type { FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { clientOf } from './client-of.ts';
import { isLive } from './e2b-sandbox.ts';

/** A request whose path names a sandbox. */
export interface ById {
  Params: { sandboxID: string };
}

/** @throws GatewayError 404 for a sandbox that has ended, which E2B does not remember. */
export async function liveSandbox(request: FastifyRequest<ById>, deps: E2bDeps): Promise<Sandbox> {
  const sandbox = await clientOf(request, deps).sandboxes.get(request.params.sandboxID);
  if (!isLive(sandbox.info)) throw new GatewayError(404, `The sandbox ${sandbox.id} has ended.`);
  return sandbox;
}
