import type { Command } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { findLanguage } from './languages.ts';
import type { RunRequest } from './run-request.ts';
import { content, name, optional } from './text-bounds.ts';

/** Time limit of a program. Dify sends none. Its own sandbox has this limit in Dify's installation. */
const TIMEOUT_MS = 15_000;

/** Body of `POST /v1/sandbox/run`. `preload` is ignored, as by Dify's own sandbox unless its operator permits it. */
export const DifyBody = z.object({
  language: name(),
  code: content().min(1),
  enable_network: optional(z.boolean(), false),
});

/** Registers `POST /v1/sandbox/run` of Dify's sandbox, and its `GET /health`. */
export function difyRoutes(app: FastifyInstance, run: RunRequest): void {
  app.get('/health', async (_request, reply) => reply.type('application/json').send('"ok"'));
  app.post('/v1/sandbox/run', async (request, reply) => {
    const { language: wanted, code, enable_network } = DifyBody.parse(request.body);
    const language = wanted === 'python3' || wanted === 'nodejs' ? findLanguage(wanted) : undefined;
    if (!language) throw new GatewayError(400, 'unsupported language: use python3 or nodejs');
    const main = `main.${language.extension}`;
    const { command } = await run(request, reply, {
      command: [language.interpreter, main],
      files: new Map([[main, Buffer.from(code)]]),
      timeoutMs: TIMEOUT_MS,
      hasNetwork: enable_network,
      user: 'user',
    });
    return { code: 0, message: 'success', data: resultOf(command) };
  });
}

/** Dify tries again after 503 only. */
export function refuseDify({ status, message }: GatewayError): { status: number; body?: object } {
  if (status === 401) return { status };
  if (status === 429 || status === 503) return { status: 503, body: { code: -503, message, data: null } };
  return { status: status < 500 ? 200 : 500, body: { code: -status, message, data: null } };
}

function resultOf({ status, exitCode = -1, stdout = '', stderr = '' }: Command) {
  const reason = status === 'timed_out' ? `the time limit of ${TIMEOUT_MS / 1000} s has passed\n` : '';
  const error = exitCode === 0 ? '' : `process exited with code ${exitCode}\n${reason}${stderr}`;
  return { stdout, stderr, error, exit_code: exitCode };
}
