/** What always holds for the events of a simulation and the webhooks that get them. */
import type { WorkloadWorld } from './workload.ts';

export type WebhookInvariants = ReturnType<typeof watchWebhooks>;

export function watchWebhooks({ database, violate }: WorkloadWorld) {
  /** Numbers of the events that each receiver has accepted. */
  const accepted = new Map<string, Set<number>>();
  /** Cursor of each webhook after its creation, and up to which event it was judged. */
  const judged = new Map<string, number>();
  const hasReceived = (url: unknown, seq: unknown) => accepted.get(String(url))?.has(Number(seq)) ?? false;

  return {
    received(url: string, { seq }: { readonly seq: number }) {
      accepted.set(url, (accepted.get(url) ?? new Set()).add(seq));
    },
    /** No cursor passes an event that its receiver did not accept, and that is not tried again by itself. */
    committed() {
      for (const { id, url, cursor_seq: cursor } of database.read('select id, url, cursor_seq from webhooks')) {
        const last = judged.get(String(id)) ?? Number(cursor);
        judged.set(String(id), Number(cursor));
        if (Number(cursor) < last) violate(`the cursor of ${id} goes back from ${last} to ${cursor}`);
        for (let seq = last + 1; seq <= Number(cursor); seq += 1) {
          if (hasReceived(url, seq)) continue;
          const aside =
            'select id from webhook_deliveries where webhook_id = ? and event_seq = ? and retry_at is not null';
          if (database.read(aside, String(id), seq).length === 0) violate(`${id} skips the event ${seq}`);
        }
      }
    },
    unrest(): string[] {
      const behind = database.read(
        'select id from webhooks join event_sequences using (org_id) where enabled = 1 and cursor_seq < last_seq',
      );
      const waiting = database.read('select id from webhook_deliveries where retry_at is not null');
      const gaps = database.read(
        'select org_id from events group by org_id having count(*) != max(seq) - min(seq) + 1 or min(seq) != 1',
      );
      return [
        ...behind.map(({ id }) => `${id} has events to send`),
        ...waiting.map(({ id }) => `delivery ${id} waits`),
        ...gaps.map(() => 'numbers of events are missing'),
      ];
    },
  };
}
