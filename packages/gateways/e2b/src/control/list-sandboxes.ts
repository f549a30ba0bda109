import { LIMITS } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { Cloche, SandboxInfo } from '@cloche/sdk';
import { NAME, textUpTo } from '../bounded-schemas.ts';
import { isLive } from './e2b-sandbox.ts';
import { slugOf } from './template-name.ts';

/** Sandboxes on a page of E2B, at most and by default. */
const PAGE = 100;
const STATES = ['running', 'paused'];
const COUNT = /^[1-9]\d{0,2}$/;

export interface ListQuery {
  readonly metadata?: string;
  readonly state?: string | readonly string[];
  readonly order?: 'asc' | 'desc';
  readonly startedAfter?: string;
  readonly template?: string;
  readonly limit?: string;
  readonly nextToken?: string;
}

const STATE_TEXT = textUpTo(64);
const states = { anyOf: [STATE_TEXT, { type: 'array', maxItems: 8, items: STATE_TEXT }] };
export const LIST_SCHEMA = {
  querystring: {
    type: 'object',
    properties: {
      metadata: textUpTo(LIMITS.bodyBytes),
      state: states,
      order: { enum: ['asc', 'desc'] },
      startedAfter: textUpTo(LIMITS.timestampLength),
      template: NAME,
      limit: { type: 'string', pattern: COUNT.source, maxLength: 3 },
      nextToken: textUpTo(LIMITS.cursorLength),
    },
  },
};

export interface Page {
  readonly sandboxes: readonly SandboxInfo[];
  /** Present if the list goes on. */
  readonly nextToken?: string | undefined;
}

interface Selection {
  readonly query: Readonly<Record<string, string>>;
  readonly selects: (sandbox: SandboxInfo) => boolean;
  readonly limit: number;
  readonly nextToken: string | undefined;
}

/** Lists live sandboxes as a query of E2B asks. @throws GatewayError 400 */
export async function listSandboxes(cloche: Cloche, given: ListQuery): Promise<Page> {
  const states = [given.state ?? 'running'].flat().flatMap((each) => each.split(','));
  const unknown = states.find((state) => !STATES.includes(state));
  if (unknown !== undefined) throw new GatewayError(400, `There is no state ${unknown}; use ${STATES.join(' or ')}.`);
  if (!states.includes('running')) return { sandboxes: [] };
  const selection: Selection = {
    query: { ...labelsOf(given.metadata), ...startedAfter(given.startedAfter) },
    selects: selector(given.template),
    limit: Math.min(PAGE, Number(given.limit ?? PAGE)),
    nextToken: given.nextToken,
  };
  return given.order === 'asc' ? oldestFirst(cloche, selection) : newestFirst(cloche, selection);
}

/** Reads pages of `/v1`, which end where the page ends, so that its cursor continues there. */
async function newestFirst(cloche: Cloche, { query, selects, limit, nextToken }: Selection): Promise<Page> {
  const sandboxes: SandboxInfo[] = [];
  for (let cursor = nextToken; ; ) {
    const part = { ...query, limit: limit - sandboxes.length, ...(cursor && { cursor }) };
    const { data, nextCursor } = await cloche.call('listSandboxes', { query: part });
    sandboxes.push(...data.filter(selects));
    if (nextCursor === undefined || sandboxes.length === limit) return { sandboxes, nextToken: nextCursor };
    cursor = nextCursor;
  }
}

/**
 * `/v1` lists newest first, so this reads all pages and keeps the oldest sandboxes. No two sandboxes of a key have the
 * same time of creation.
 */
async function oldestFirst(cloche: Cloche, { query, selects, limit, nextToken }: Selection): Promise<Page> {
  const after = nextToken === undefined ? {} : { createdAfter: timeOf('nextToken', nextToken) };
  let oldest: SandboxInfo[] = [];
  let cursor: string | undefined;
  do {
    const part = { ...query, ...after, limit: LIMITS.listPage, ...(cursor && { cursor }) };
    const { data, nextCursor } = await cloche.call('listSandboxes', { query: part });
    // Keeps one sandbox more than the page, which shows that there is a next page.
    oldest = [...oldest, ...data.filter(selects)].slice(-limit - 1);
    cursor = nextCursor;
  } while (cursor !== undefined);
  const sandboxes = oldest.reverse().slice(0, limit);
  return { sandboxes, nextToken: oldest.length > limit ? sandboxes.at(-1)?.createdAt : undefined };
}

function selector(template: string | undefined): Selection['selects'] {
  if (template === undefined) return isLive;
  const slug = slugOf(template);
  return (sandbox) => isLive(sandbox) && [sandbox.templateSlug, sandbox.templateId as string].includes(slug);
}

/** E2B includes what started at the time; `/v1` does not. */
function startedAfter(text: string | undefined): { createdAfter?: string } {
  if (text === undefined) return {};
  return { createdAfter: new Date(Date.parse(timeOf('startedAfter', text)) - 1).toISOString() };
}

/** @throws GatewayError 400 */
function timeOf(name: string, text: string): string {
  const at = new Date(text);
  if (!Number.isNaN(at.getTime())) return at.toISOString();
  throw new GatewayError(400, `${name} must be a time such as 2026-01-31T09:00:00Z.`);
}

/** Clients encode each label and then the list of them. */
function labelsOf(metadata = ''): Record<string, string> {
  const labels = [...new URLSearchParams(metadata)];
  return Object.fromEntries(labels.map(([key, value]) => [`metadata.${decodeLabel(key)}`, decodeLabel(value)]));
}

/** @throws GatewayError 400 */
function decodeLabel(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new GatewayError(400, `The label ${text} in metadata has an invalid percent escape.`);
  }
}
