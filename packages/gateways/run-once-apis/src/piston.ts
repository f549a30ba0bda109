import { type Command, LIMITS } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { satisfies, validRange } from 'semver';
import { z } from 'zod';
import { findLanguage, LANGUAGE_NAMES, LANGUAGES, type ProgramLanguage } from './languages.ts';
import type { RunRequest } from './run-request.ts';
import { content, name, optional, path } from './text-bounds.ts';

/** Time for which the versions of the interpreters are remembered. */
const VERSIONS_MS = 600_000;
/** Prints the version of each interpreter on a line. */
const PRINT_VERSIONS =
  'python3 -c "import platform; print(\'python3\', platform.python_version())"; ' +
  'echo "node $(node -p process.versions.node)"; echo "bash $(echo $BASH_VERSION | cut -d "(" -f 1)"';
/** Time limit that Piston gives a program by default. */
const DEFAULT_RUN_MS = 3000;

/** Body of `POST /api/v2/execute`. Limits of memory and of compilers are ignored. */
export const PistonBody = z.object({
  language: name(),
  version: name(),
  files: z
    .array(
      z.object({
        name: path().or(z.literal('')).nullish(),
        content: content(),
        encoding: optional(z.enum(['base64', 'hex', 'utf8']), 'utf8'),
      }),
    )
    .min(1)
    .max(100),
  stdin: optional(content(), ''),
  args: optional(z.array(z.string().max(LIMITS.commandArgumentBytes)).max(1000), []),
  /** 0 is as if it was left out. */
  run_timeout: optional(z.number().nonnegative().max(600_000), 0).transform((ms) => ms || DEFAULT_RUN_MS),
});

/** Registers Piston's `GET /api/v2/runtimes` and `POST /api/v2/execute`. Programs have no network. */
export function pistonRoutes(app: FastifyInstance, run: RunRequest): void {
  const versions = new InterpreterVersions(run);
  app.get('/api/v2/runtimes', async (request, reply) => {
    const found = await versions.read(request, reply);
    return LANGUAGES.map((language) => runtimeOf(language, found));
  });
  app.post('/api/v2/execute', async (request, reply) => {
    const { language: wanted, version, files, stdin, args, run_timeout } = PistonBody.parse(request.body);
    const language = findLanguage(wanted);
    if (!language) throw new GatewayError(400, `${wanted} runtime is unknown; use ${LANGUAGE_NAMES}`);
    const runtime = runtimeOf(language, await versions.read(request, reply));
    if (validRange(version) === null || !satisfies(runtime.version, version))
      throw new GatewayError(400, `${wanted}-${version} runtime is unknown; the version here is ${runtime.version}`);
    const named = files.map(({ name: given, content, encoding }, index) => ({
      path: given || (index === 0 ? `main.${language.extension}` : `file${index}.code`),
      bytes: Buffer.from(content, encoding),
    }));
    const [main] = named;
    const { command, output } = await run(request, reply, {
      command: [language.interpreter, main?.path ?? '', ...args],
      files: new Map(named.map(({ path, bytes }) => [path, bytes])),
      stdin,
      timeoutMs: Math.ceil(run_timeout),
      hasNetwork: false,
      user: 'user',
    });
    return { run: stageOf(command, output), language: language.name, version: runtime.version };
  });
}

export function refusePiston({ status, message }: GatewayError): { status: number; body: object } {
  return { status, body: { message } };
}

function runtimeOf({ name, aliases, interpreter }: ProgramLanguage, versions: ReadonlyMap<string, string>) {
  const version = versions.get(interpreter) ?? '0.0.0';
  return { language: name, version, aliases, ...(interpreter === 'node' ? { runtime: 'node' } : {}) };
}

/** Piston says `SIGKILL`, and no exit code, of a program that it ended at its time limit. */
function stageOf({ status, exitCode, signal, stdout = '', stderr = '' }: Command, output: string) {
  const endedBy = status === 'timed_out' ? 'SIGKILL' : (signal ?? null);
  return { stdout, stderr, output, code: endedBy === null ? (exitCode ?? null) : null, signal: endedBy };
}

/** Reads the versions of the interpreters in a sandbox. They are the same for every client. */
class InterpreterVersions {
  readonly #run: RunRequest;
  #read: { readonly at: number; readonly versions: ReadonlyMap<string, string> } | undefined;

  constructor(run: RunRequest) {
    this.#run = run;
  }

  async read(request: FastifyRequest, reply: FastifyReply): Promise<ReadonlyMap<string, string>> {
    if (this.#read && performance.now() - this.#read.at < VERSIONS_MS) return this.#read.versions;
    const program = { files: new Map(), timeoutMs: 30_000, hasNetwork: false, user: 'user' } as const;
    const { command } = await this.#run(request, reply, { ...program, command: ['bash', '-c', PRINT_VERSIONS] });
    if (command.exitCode !== 0) throw new GatewayError(503, 'The versions of the runtimes cannot be read; try again.');
    const lines = (command.stdout ?? '').trim().split('\n');
    const versions = new Map(lines.map((line) => line.split(' ', 2) as [string, string]));
    this.#read = { at: performance.now(), versions };
    return versions;
  }
}
