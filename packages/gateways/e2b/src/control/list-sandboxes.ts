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
  /** Sandboxes of one answer of `/v1`: more than are shown, where `selects` leaves some out. */
  readonly partLimit: number;
  readonly nextToken: string | undefined;
}

/**
 * Lists live sandboxes as a query of E2B asks, by the times of their creations.
 *
 * @param byDefault states of a query without any
 * @throws GatewayError 400
 */
export async function listSandboxes(
  cloche: Cloche,
  given: ListQuery,
  byDefault: readonly string[] = STATES,
): Promise<Page> {
  const states = [given.state ?? byDefault].flat().flatMap((each) => each.split(','));
  const unknown = states.find((state) => !STATES.includes(state));
  if (unknown !== undefined) throw new GatewayError(400, `There is no state ${unknown}; use ${STATES.join(' or ')}.`);
  const isOfBoth = states.includes('running') && states.includes('paused');
  const limit = Math.min(PAGE, Number(given.limit ?? PAGE));
  const selection: Selection = {
    query: { ...labelsOf(given.metadata), ...(!isOfBoth && { paused: String(states.includes('paused')) }) },
    selects: selector(given),
    limit,
    partLimit: given.template === undefined && given.startedAfter === undefined ? limit + 1 : LIMITS.listPage,
    nextToken: given.nextToken,
  };
  return given.order === 'asc' ? oldestFirst(cloche, selection) : newestFirst(cloche, selection);
}

/** Reads pages of `/v1` until there is one sandbox more than the page has, which shows that there is a next page. */
async function newestFirst(cloche: Cloche, selection: Selection): Promise<Page> {
  const { query, selects, limit, partLimit, nextToken } = selection;
  const before = nextToken === undefined ? {} : { createdBefore: timeOf('nextToken', nextToken) };
  const newest: SandboxInfo[] = [];
  let cursor: string | undefined;
  do {
    const part = { ...query, ...before, limit: partLimit, ...(cursor && { cursor }) };
    const { data, nextCursor } = await cloche.call('listSandboxes', { query: part });
    newest.push(...data.filter(selects));
    cursor = nextCursor;
  } while (cursor !== undefined && newest.length <= limit);
  return pageOf(newest, limit);
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
  return pageOf(oldest.reverse(), limit);
}

function pageOf(found: readonly SandboxInfo[], limit: number): Page {
  const sandboxes = found.slice(0, limit);
  return { sandboxes, nextToken: found.length > limit ? sandboxes.at(-1)?.createdAt : undefined };
}

/** The start of a session is no filter of `/v1`: a wake begins one, long after the creation. */
function selector({ template, startedAfter }: ListQuery): Selection['selects'] {
  const slug = template === undefined ? undefined : slugOf(template);
  const from = startedAfter === undefined ? '' : timeOf('startedAfter', startedAfter);
  return (sandbox) =>
    isLive(sandbox) &&
    [undefined, sandbox.templateSlug, sandbox.templateId as string].includes(slug) &&
    sandbox.sessionStartedAt >= from;
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
