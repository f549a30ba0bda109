import { AgentErrorBody } from '@cloche/protocol';
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { Dispatcher, Pool } from 'undici';
import { AgentError } from '../../driver/runtime-driver.ts';
import { isConnectionError, MalformedResponseError, readJson } from './http-response.ts';
import { LineTimeoutError } from './line-memory.ts';
import { LineTooLongError } from './ndjson.ts';

/** Largest response to an ordinary request. Most are far smaller. */
export const MAX_SMALL_BYTES = 64 * 1024;

const MAX_MESSAGE_CHARACTERS = 500;
const JSON_HEADERS = { 'content-type': 'application/json' };

export const agentErrorBody = Compile(AgentErrorBody);

/** Maps the agent's error codes to kinds of `AgentError`. Any other code becomes `internal`. */
export type ErrorKinds = ReadonlyMap<string, AgentError['kind']>;

type Method = Extract<Dispatcher.HttpMethod, 'GET' | 'PUT' | 'POST' | 'DELETE'>;

/** Sends requests to one agent. Throws `AgentError` for refusals and invalid responses. */
export class AgentRequests {
  readonly #pool: Pool;
  readonly #errorKinds: ErrorKinds;

  constructor(pool: Pool, errorKinds: ErrorKinds) {
    this.#pool = pool;
    this.#errorKinds = errorKinds;
  }

  /** Sends a request and returns the response before its body has been read. */
  async open(method: Method, path: string, message: object | undefined, signal: AbortSignal) {
    const body = message && { body: JSON.stringify(message), headers: JSON_HEADERS };
    try {
      const response = await this.#pool.request({ method, path, signal, onInfo: refuseInterim, ...body });
      if (response.statusCode < 300) return response;
      const { error } = await readJson(response, agentErrorBody, MAX_SMALL_BYTES);
      throw refusal(error, this.#errorKinds);
    } catch (error) {
      throw toAgentError(error, signal);
    }
  }

  /** Sends a request and returns the response's JSON, which must match `schema`. */
  async ask<S extends TSchema>(
    request: { method: Method; path: string; message?: object },
    schema: Validator<Record<never, never>, S>,
    signal: AbortSignal,
    maxBytes = MAX_SMALL_BYTES,
  ): Promise<ReturnType<typeof schema.Parse>> {
    const response = await this.open(request.method, request.path, request.message, signal);
    try {
      return await readJson(response, schema, maxBytes);
    } catch (error) {
      throw toAgentError(error, signal);
    }
  }

  /** Sends a request and discards the body of the response. */
  async act(method: Method, path: string, message: object | undefined, signal: AbortSignal): Promise<void> {
    const response = await this.open(method, path, message, signal);
    try {
      await response.body.dump({ limit: MAX_SMALL_BYTES });
    } catch (error) {
      throw toAgentError(error, signal);
    }
  }
}

/** Converts an error of the agent to an `AgentError`. */
export function refusal({ code, message }: { code: string; message: string }, errorKinds: ErrorKinds): AgentError {
  return new AgentError(errorKinds.get(code) ?? 'internal', message.slice(0, MAX_MESSAGE_CHARACTERS));
}

/** Returns the error to throw: the signal's reason after an abort, and an `AgentError` for any other failure. */
export function toAgentError(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof AgentError) return error;
  if (signal.aborted) return signal.reason;
  if (
    error instanceof MalformedResponseError ||
    error instanceof LineTooLongError ||
    error instanceof LineTimeoutError
  ) {
    return new AgentError('misbehaved', error.message, { cause: error });
  }
  // Any other error of undici is a broken connection or a response that is not HTTP.
  const kind = isConnectionError(error) ? 'gone' : 'misbehaved';
  return new AgentError(kind, error instanceof Error ? error.message : String(error), { cause: error });
}

/** Rejects interim responses: an honest agent sends none, and a hostile one could send an endless series. */
function refuseInterim({ statusCode }: { statusCode: number }): never {
  throw new MalformedResponseError(`an interim answer (${statusCode})`);
}
