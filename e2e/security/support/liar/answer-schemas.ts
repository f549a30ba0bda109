import {
  AgentActivity,
  AgentCommand,
  AgentCommandEvent,
  AgentContext,
  AgentContextList,
  AgentFile,
  AgentFileEvent,
  AgentLogPage,
  AgentRunEvent,
  AgentUnpacked,
  CommandResultEvent,
} from '@cloche/protocol';
import type { Schema } from '../../../../packages/service/server/testing/schema-mutants.ts';

/** The schema of an agent's answer. */
export interface AnswerSchema {
  /** Pattern of the method and the path. */
  readonly of: string;
  /** Whether the answer is a stream of such messages, one JSON text per line. */
  readonly isLines?: boolean;
  readonly schema: Schema;
}

const FILE = AgentFile as unknown as Schema;

/** The answers of the protocol, in the order in which they are looked up. */
export const ANSWER_SCHEMAS: readonly AnswerSchema[] = (
  [
    ['^GET /activity', AgentActivity],
    ['^GET /contexts', AgentContextList],
    ['^PUT /contexts/', AgentContext],
    ['^GET /runs', AgentRunEvent, 'lines'],
    ['^POST /commands/[^/]*/result', CommandResultEvent, 'lines'],
    ['^POST /commands/[^/]*/follow', AgentCommandEvent, 'lines'],
    ['^POST /commands/[^/]*/logs', AgentLogPage],
    ['^\\w+ /commands/', AgentCommand],
    ['^PUT /files/archive', AgentUnpacked],
    ['^GET /files/watch', AgentFileEvent, 'lines'],
    ['^GET /files\\?', FILE, 'lines'],
    ['^(?!GET /files/(content|archive))\\w+ /files', FILE],
  ] as [string, Schema, string?][]
).map(([of, schema, lines]) => ({ of, schema, ...(lines && { isLines: true }) }));
