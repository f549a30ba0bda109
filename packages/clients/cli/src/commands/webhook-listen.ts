import { randomBytes } from 'node:crypto';
import type { EventTypeFilter, ResourceEvent } from '@cloche/sdk';
import { signWebhook } from '@cloche/sdk/webhooks';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { list } from '../option-values.ts';
import type { Session } from '../session.ts';
import { jsonLine } from '../terminal/printable.ts';

interface ListenFlags {
  events?: EventTypeFilter[];
  project?: string;
  secret?: string;
}

/** Time limit of an attempt, the same as that of the service. */
const ATTEMPT_MS = 15_000;

export function addListenCommand(webhook: Command): void {
  const listen = leaf(webhook, 'listen <url>', 'Forward new events to a local program, signed, until interrupted', [
    "cloche webhook listen http://localhost:3000/hook --events 'sandbox.*'",
  ])
    .option('--events <types>', 'only events of these types, such as sandbox.* or artifact.created', list)
    .option('--project <id>', 'only events of this project')
    .option('--secret <secret>', 'sign with this secret (default: a new one, which is printed)');
  perform(listen, forwardEvents);
}

/** Forwards each event once, without retries: a program under development misses an event that it refuses. */
async function forwardEvents(session: Session, flags: ListenFlags, url: string): Promise<void> {
  using interruption = watchForInterruption({ follows: true });
  const { signal } = interruption;
  const { events } = await session.connect();
  const secret = flags.secret ?? `whsec_${randomBytes(32).toString('base64')}`;
  const afterSeq = await events.lastSeq({ signal });
  await session.note(`Forwarding new events to ${url}, signed with ${secret}`);
  for await (const event of events.stream({ afterSeq, types: flags.events, projectId: flags.project, signal })) {
    const outcome = await forward(event, url, secret, signal);
    const { seq, type, id } = event;
    if (session.json) await session.terminal.out.line(jsonLine({ seq, id, type, ...outcome }));
    else await session.terminal.out.line(`${seq} ${type} ${id}: ${outcome.status ?? outcome.error}`);
  }
}

async function forward(
  event: ResourceEvent,
  url: string,
  secret: string,
  signal: AbortSignal,
): Promise<{ status: number; error?: never } | { status?: never; error: string }> {
  const body = JSON.stringify(event);
  try {
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', ...signWebhook(body, event.id, secret) },
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)]),
    });
    await response.body?.cancel();
    return { status: response.status };
  } catch (error) {
    signal.throwIfAborted();
    const { message, cause } = error as Error;
    return { error: cause instanceof Error ? cause.message : message };
  }
}
