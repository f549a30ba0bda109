import type { DecisionLog } from '../decisions/decision-log.ts';
import type { Connection } from './connection.ts';
import { refusalBody } from './exchange.ts';
import type { Forwarded } from './forward.ts';
import type { Decision } from './request-target.ts';

export type ProxiedProtocol = 'http' | 'https' | 'websocket' | 'connect';

/** Returns a function that records a decision and its outcome. */
export function recorder(
  decisions: DecisionLog,
  { traffic, destination }: Connection,
  protocol: ProxiedProtocol,
  startedAt: number,
): (decision: Decision, forwarded?: Forwarded) => void {
  return (decision, forwarded) => {
    const { failure, ...counted } = forwarded ?? {};
    const isPermitted = decision.verdict === 'permitted';
    const verdict = failure === undefined ? decision.verdict : failure === 'denied' ? 'denied' : 'failed';
    decisions.record({
      sandboxId: traffic.sandboxId,
      protocol,
      host: isPermitted ? decision.hostField : decision.host,
      port: isPermitted ? decision.target.port : destination.port,
      verdict,
      reason: isPermitted ? failure : decision.reason,
      ...counted,
      durationMs: Math.round(performance.now() - startedAt),
    });
  };
}

export function refuseDecided(decision: Decision, refuse: (status: number, body: string) => void): void {
  if (decision.verdict === 'permitted') return;
  const { verdict, host, reason } = decision;
  if (verdict === 'denied') refuse(403, refusalBody('egress_denied', host, reason));
  else refuse(400, refusalBody('egress_malformed', host, reason));
}
