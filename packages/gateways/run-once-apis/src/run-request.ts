import { loopbackClient } from '@cloche/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { keyOf } from './client-key.ts';
import type { RunApisDeps } from './run-apis-deps.ts';
import type { Program, ProgramEnd, ProgramRunner } from './run-program.ts';

/** Runs a program for a request, with its key. The program ends when the client goes away. */
export type RunRequest = (
  request: FastifyRequest,
  reply: FastifyReply,
  program: Omit<Program, 'api'>,
) => Promise<ProgramEnd>;

/** @param api name of the API, which labels its sandboxes */
export function runRequests(api: string, runner: ProgramRunner, { apiUrl }: RunApisDeps): RunRequest {
  return (request, reply, program) => {
    const cloche = loopbackClient(apiUrl(), keyOf(request), request.headers);
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    return runner.run(cloche, { ...program, api }, gone.signal);
  };
}
