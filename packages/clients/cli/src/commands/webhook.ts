import type { EventPattern, Webhook, WebhookDelivery } from '@cloche/contract';
import type { WebhookWithSecret } from '@cloche/sdk';
import type { Command } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { list, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { statusColor } from '../terminal/status-color.ts';
import { fields, table } from '../terminal/table.ts';
import type { Colors } from '../terminal/terminal.ts';
import { addListenCommand } from './webhook-listen.ts';

interface Flags {
  to?: string;
  events?: EventPattern[];
  project?: string;
  description?: string;
  enable?: boolean;
  disable?: boolean;
}

const EVENTS = 'types of events, such as sandbox.* or artifact.created; * for all';

export function addWebhookCommands(program: Command): void {
  const webhook = group(program, 'webhook', 'Send events to URLs');
  addCreateCommand(webhook);
  addFindCommands(webhook);
  addChangeCommands(webhook);
  addDeliveryCommands(webhook);
  addListenCommand(webhook);
}

function addCreateCommand(webhook: Command): void {
  const create = leaf(webhook, 'create <url>', 'Create a webhook and print its secret; it is not shown again', [
    "cloche webhook create https://example.com/hook --events 'sandbox.*'",
  ])
    .requiredOption('--events <types>', EVENTS, list)
    .option('--project <id>', 'only events of this project')
    .option('--description <text>', 'purpose of the webhook');
  perform(create, async (session, { events = [], project, description }: Flags, url: string) => {
    const { webhooks } = await session.connect();
    await showSecret(session, await webhooks.create(url, { events, projectId: project, description }));
  });
}

function addFindCommands(webhook: Command): void {
  const all = leaf(webhook, 'list', 'List webhooks, newest first').option(
    '--project <id>',
    'only webhooks of this project',
  );
  perform(paged(all), async (session, { project, ...flags }: PageFlags & { project?: string }) => {
    const data = await (await session.connect()).webhooks.list({ ...flags, projectId: project });
    const none = 'No webhooks. `cloche webhook create` creates one.';
    await showPage(session, data, () => table(data, COLUMNS, session.terminal.out), { none });
  });

  perform(leaf(webhook, 'get <webhook>', 'Show a webhook'), async (session, _options, id: string) => {
    await showWebhook(session, await (await session.connect()).webhooks.get(id));
  });
}

function addChangeCommands(webhook: Command): void {
  const update = leaf(webhook, 'update <webhook>', 'Change a webhook', ['cloche webhook update whk_… --enable'])
    .option('--to <url>', 'new URL')
    .option('--events <types>', EVENTS, list)
    .option('--enable', 'send events again')
    .option('--disable', 'send no events; they wait until the webhook is enabled');
  perform(update, async (session, { to: url, events, enable, disable }: Flags, id: string) => {
    const enabled = enable ? true : disable ? false : undefined;
    await showWebhook(session, await (await session.connect()).webhooks.update(id, { url, events, enabled }));
  });

  perform(leaf(webhook, 'delete <webhooks...>', 'Delete webhooks'), async (session, _options, ids: string[]) => {
    const { webhooks } = await session.connect();
    for (const id of ids) {
      const deleted = await webhooks.delete(id);
      if (session.json) await session.show(deleted, () => '');
      await session.note(`${deleted.id} deleted`);
    }
  });

  perform(
    leaf(webhook, 'rotate <webhook>', 'Replace the secret of a webhook and print the new one'),
    async (session, _options, id: string) => {
      await showSecret(session, await (await session.connect()).webhooks.rotateSecret(id));
    },
  );
}

function addDeliveryCommands(webhook: Command): void {
  perform(
    leaf(webhook, 'test <webhook>', 'Send a test event and show the result'),
    async (session, _options, id: string) => {
      await showDelivery(session, await (await session.connect()).webhooks.test(id));
    },
  );

  const deliveries = leaf(webhook, 'deliveries <webhook>', 'List what was sent to a webhook, oldest first') //
    .option('--after <seq>', 'only deliveries with a larger number', wholeNumber);
  perform(deliveries, listDeliveries);

  const resend = leaf(webhook, 'resend <webhook> <delivery>', 'Send a delivery again');
  perform(resend, async (session, _options, id: string, delivery: string) => {
    await showDelivery(session, await (await session.connect()).webhooks.resend(id, delivery));
  });
}

async function listDeliveries(session: Session, { after }: { after?: number }, id: string): Promise<void> {
  const { webhooks } = await session.connect();
  const data: WebhookDelivery[] = [];
  for (let afterSeq = after ?? 0, hasMore = true; hasMore; afterSeq = data.at(-1)?.seq ?? afterSeq) {
    const page = await webhooks.listDeliveries(id, { afterSeq });
    data.push(...page.data);
    ({ hasMore } = page);
  }
  await session.show({ data }, () => table(data, DELIVERY_COLUMNS, session.terminal.out));
}

async function showSecret(session: Session, made: WebhookWithSecret): Promise<void> {
  const { webhook, secret } = made;
  await session.show(made, () => secret);
  await session.note(
    `${webhook.id} sends ${webhook.events.join(', ')} to ${webhook.url}; the secret is not shown again`,
  );
}

async function showWebhook(session: Session, webhook: Webhook): Promise<void> {
  await session.show(webhook, () =>
    fields(
      [
        ['webhook', webhook.id],
        ['url', webhook.url],
        ['events', webhook.events.join(', ')],
        ['project', webhook.projectId ?? 'all'],
        ['description', webhook.description],
        ['state', stateOf(webhook)],
        ['next attempt', webhook.nextAttemptAt],
        ['created', formatAge(webhook.createdAt)],
      ],
      session.terminal.out,
    ),
  );
}

async function showDelivery(session: Session, delivery: WebhookDelivery): Promise<void> {
  await session.show(delivery, () =>
    fields(
      [
        ['delivery', delivery.id],
        ['event', `${delivery.eventType} ${delivery.eventId}`],
        ['status', delivery.status],
        ['attempts', String(delivery.attempts)],
        ['answer', answerOf(delivery)],
      ],
      session.terminal.out,
    ),
  );
}

const COLUMNS = [
  { title: 'ID', value: ({ id }: Webhook) => id },
  { title: 'URL', value: ({ url }: Webhook) => url },
  { title: 'EVENTS', value: ({ events }: Webhook) => events.join(', ') },
  {
    title: 'STATE',
    value: (webhook: Webhook) => stateOf(webhook),
    style: (cell: string, webhook: Webhook, colors: Colors) =>
      statusColor(webhook.failingSince === undefined ? (stateOf(webhook).split(':')[0] ?? '') : 'failed', colors)(cell),
  },
];

const DELIVERY_COLUMNS = [
  { title: 'SEQ', value: ({ seq }: WebhookDelivery) => String(seq) },
  { title: 'ID', value: ({ id }: WebhookDelivery) => id },
  { title: 'EVENT', value: ({ eventType }: WebhookDelivery) => eventType },
  {
    title: 'STATUS',
    value: ({ status }: WebhookDelivery) => status,
    style: (cell: string, { status }: WebhookDelivery, colors: Colors) => statusColor(status, colors)(cell),
  },
  { title: 'ATTEMPTS', value: ({ attempts }: WebhookDelivery) => String(attempts) },
  { title: 'ANSWER', value: (delivery: WebhookDelivery) => answerOf(delivery) },
];

function stateOf({ enabled, disabledReason, failingSince, deletedAt }: Webhook): string {
  if (deletedAt !== undefined) return 'deleted';
  if (!enabled) return disabledReason === undefined ? 'disabled' : `disabled: ${disabledReason}`;
  return failingSince === undefined ? 'enabled' : `failing since ${failingSince}`;
}

function answerOf({ response, error }: WebhookDelivery): string {
  return response === undefined ? (error ?? '-') : String(response.status);
}
