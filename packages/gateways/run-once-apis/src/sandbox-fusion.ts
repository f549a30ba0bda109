import type { Command } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { findLanguage, LANGUAGE_NAMES } from './languages.ts';
import type { RunRequest } from './run-request.ts';
import { BODY_BYTES, content, name, optional, path } from './text-bounds.ts';

const SECONDS = 1000;
/** Files that a program may be given. */
const MAX_FILES = 1000;

/** Body of `POST /run_code`. `compile_timeout` is ignored: no language here is compiled. So is `memory_limit_MB`. */
export const SandboxFusionBody = z.object({
  code: content(),
  language: name(),
  run_timeout: optional(z.number().positive().max(600), 10),
  stdin: content().nullish(),
  files: optional(
    z
      .record(path(), z.base64().max(BODY_BYTES).nullable())
      .refine((files) => Object.keys(files).length <= MAX_FILES, `must be at most ${MAX_FILES}`)
      .meta({ maxProperties: MAX_FILES }),
    {},
  ),
  fetch_files: optional(z.array(path()).max(100), []),
});

/** Registers SandboxFusion's `POST /run_code`. Programs run as root of their sandbox, without a network. */
export function sandboxFusionRoutes(app: FastifyInstance, run: RunRequest): void {
  app.post('/run_code', async (request, reply) => {
    const { code, language: wanted, stdin, run_timeout, files, fetch_files } = SandboxFusionBody.parse(request.body);
    const language = findLanguage(wanted);
    if (!language) throw new GatewayError(422, `The language ${wanted} is not available; use ${LANGUAGE_NAMES}.`);
    const main = `main.${language.extension}`;
    const given = Object.entries(files).filter((entry): entry is [string, string] => entry[1] !== null);
    const ended = await run(request, reply, {
      command: [language.interpreter, main],
      files: new Map([
        ...given.map(([file, base64]): [string, Uint8Array] => [file, Buffer.from(base64, 'base64')]),
        [main, Buffer.from(code)],
      ]),
      stdin: stdin ?? undefined,
      timeoutMs: Math.ceil(run_timeout * SECONDS),
      hasNetwork: false,
      user: 'root',
      fetch: fetch_files,
    });
    const { command } = ended;
    return {
      status: command.exitCode === 0 && command.status === 'exited' ? 'Success' : 'Failed',
      message: '',
      compile_result: null,
      run_result: resultOf(command),
      executor_pod_name: null,
      files: Object.fromEntries([...ended.files].map(([file, bytes]) => [file, Buffer.from(bytes).toString('base64')])),
    };
  });
}

export function refuseSandboxFusion({ status, message }: GatewayError): { status: number; body: object } {
  return { status, body: { detail: message } };
}

function resultOf({ status, durationMs = 0, exitCode, stdout, stderr }: Command) {
  const timedOut = status === 'timed_out';
  return {
    status: timedOut ? 'TimeLimitExceeded' : 'Finished',
    execution_time: durationMs / SECONDS,
    return_code: timedOut ? null : (exitCode ?? null),
    stdout,
    stderr,
  };
}
