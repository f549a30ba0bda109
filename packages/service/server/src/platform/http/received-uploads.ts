import type { FastifyReply, FastifyRequest } from 'fastify';
import type { DiskSpace } from '../base/disk-space.ts';
import { declaredHeaders, refuseEncoding, type TransferLimits } from './bytes.ts';
import type { ReceivedBody, RequestContext, Route } from './route.ts';
import { uploadOf } from './uploads.ts';

export interface ReceiveDeps {
  readonly transfers: TransferLimits;
  readonly space: DiskSpace;
}

/**
 * Receives the body of an upload that takes an `Idempotency-Key`. Only a received body can be compared with that of an
 * earlier request with the same key.
 */
export async function receiveBody(
  route: Route & { kind: 'receivedUpload' },
  request: FastifyRequest,
  reply: FastifyReply,
  context: RequestContext,
  { transfers: { stallMs }, space }: ReceiveDeps,
): Promise<ReceivedBody> {
  refuseEncoding(request);
  await space.require();
  using upload = uploadOf(request.raw, reply.raw, stallMs);
  const receiving = route.receive({ ...context, headers: declaredHeaders(request, route.operation), upload });
  const received = await receiving.catch((error) => {
    throw upload.failure ?? error;
  });
  // No byte arrives any more, however long the execution takes.
  reply.raw.setTimeout(0);
  return received;
}
