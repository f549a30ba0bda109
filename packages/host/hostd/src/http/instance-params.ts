import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import { HostdError } from '../base/hostd-error.ts';
import { type InstanceName, SANDBOX_ID_PATTERN } from '../instance/instance-key.ts';

export const InstanceParams = Type.Object({
  sandboxId: Type.String({ pattern: SANDBOX_ID_PATTERN }),
  generation: Type.String({ pattern: '^[1-9][0-9]{0,8}$' }),
});
export type InstanceParams = Static<typeof InstanceParams>;

export function nameOf({ sandboxId, generation }: InstanceParams): InstanceName {
  return { sandboxId, generation: Number(generation) };
}

/** Returns a signal that aborts when the caller closes the connection before it has its answer. */
export function closedEarly(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort(new HostdError('launch_failed', 'the caller disconnected'));
  });
  return controller.signal;
}
