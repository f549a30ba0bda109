/** Reads the server's requests. Checks them by hand, because the schema library would cost each idle sandbox 5 MB. */
import type { IncomingMessage } from 'node:http';
import type { Language, OpenContext, PauseAgent, ResumeAgent, RunOperation, StartRun } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';

/** Most bytes of a request body: the 4 MiB that the server accepts from its client, and room for what it adds. */
export const MAX_BODY_BYTES = 6 * 1024 * 1024;

const MAX_TOKEN_CHARACTERS = 256;

const LANGUAGES: readonly string[] = ['python', 'javascript', 'typescript'] satisfies Language[];

export type Fields = Record<string, unknown>;

/** Reads a whole body. Throws `bad_request` if it is too large or not JSON. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new AgentError('bad_request', `A body has at most ${MAX_BODY_BYTES} bytes.`);
    chunks.push(chunk);
  }
  return parseJson(Buffer.concat(chunks).toString());
}

/** Parses JSON. Throws `bad_request`. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AgentError('bad_request', 'The body is not JSON.');
  }
}

export function readEnvironment(body: unknown): Record<string, string> {
  return stringMapIn(fieldsOf(body, 'body'), 'env');
}

export function readLanguage(language: string): Language {
  if (!isLanguage(language)) throw new AgentError('bad_request', `language is one of ${LANGUAGES.join(', ')}.`);
  return language;
}

export function readOpenContext(body: unknown): OpenContext {
  const fields = fieldsOf(body, 'body');
  const language = readLanguage(textIn(fields, 'language'));
  const kernelWaitMs = fields.kernelWaitMs === undefined ? 0 : integerIn(fields, 'kernelWaitMs', 0);
  return { language, cwd: textIn(fields, 'cwd'), timeoutMs: integerIn(fields, 'timeoutMs', 1), kernelWaitMs };
}

export function readStartRun(body: unknown): StartRun {
  const fields = fieldsOf(body, 'body');
  const limits = objectIn(fields, 'limits');
  return {
    contextId: textIn(fields, 'contextId'),
    ...(fields.open !== undefined && { open: readOpenContext(fields.open) }),
    runId: textIn(fields, 'runId'),
    ...(fields.operation !== undefined && { operation: readOperation(objectIn(fields, 'operation')) }),
    code: textIn(fields, 'code'),
    ...(fields.message !== undefined && { message: textIn(fields, 'message') }),
    ...(fields.timed === true && { timed: true }),
    timeoutMs: integerIn(fields, 'timeoutMs', 1),
    limits: {
      stdoutBytes: integerIn(limits, 'stdoutBytes', 0),
      stderrBytes: integerIn(limits, 'stderrBytes', 0),
      outputBytes: integerIn(limits, 'outputBytes', 0),
      outputsBytes: integerIn(limits, 'outputsBytes', 0),
    },
  };
}

export function readAnswerMessage(body: unknown): string {
  return textIn(fieldsOf(body, 'body'), 'message');
}

export function readPauseAgent(body: unknown): PauseAgent {
  const fields = fieldsOf(body, 'body');
  if (typeof fields.force !== 'boolean') throw new AgentError('bad_request', 'force is not true or false.');
  return { token: tokenIn(fields), force: fields.force, isIdle: fields.isIdle === true };
}

export function readResumeAgent(body: unknown): ResumeAgent {
  const fields = fieldsOf(body, 'body');
  return { token: tokenIn(fields), entropy: textIn(fields, 'entropy'), now: integerIn(fields, 'now', 0) };
}

function tokenIn(fields: Fields): string {
  const token = textIn(fields, 'token');
  if (token === '' || token.length > MAX_TOKEN_CHARACTERS)
    throw new AgentError('bad_request', 'token is too long or empty.');
  return token;
}

function readOperation(fields: Fields): RunOperation {
  return { recordId: textIn(fields, 'recordId'), claim: integerIn(fields, 'claim', 1) };
}

function isLanguage(text: string): text is Language {
  return LANGUAGES.includes(text);
}

export function fieldsOf(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new AgentError('bad_request', `${name} is not an object.`);
  }
  return value as Fields;
}

export function objectIn(fields: Fields, name: string): Fields {
  return fieldsOf(fields[name], name);
}

export function stringMapIn(fields: Fields, name: string): Record<string, string> {
  const map = objectIn(fields, name);
  for (const key of Object.keys(map)) textIn(map, key);
  return map as Record<string, string>;
}

export function textIn(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string') throw new AgentError('bad_request', `${name} is not a string.`);
  return value;
}

export function integerIn(fields: Fields, name: string, minimum: number): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < minimum) {
    throw new AgentError('bad_request', `${name} is not an integer of at least ${minimum}.`);
  }
  return value;
}
