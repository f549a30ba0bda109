import { Readable } from 'node:stream';
import { type CodeRunEvent, type Language, LIMITS } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import { readJsonBodies } from '@cloche/kit/gateway-app';
import type { FastifyInstance } from 'fastify';
import { JSON_BODIES } from '../body-bounds.ts';
import { ENVIRONMENT, OPTIONAL_NAME, optionalTextUpTo, textUpTo } from '../bounded-schemas.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { joined } from '../joined.ts';
import { bashEvents, isBash } from './bash-run.ts';
import { type BoxSession, pathOf, sessionOf } from './box-session.ts';
import { E2bContexts, standingLanguage } from './e2b-contexts.ts';
import { HomeDirectory } from './home-directory.ts';
import { refuseWhilePaused } from './paused-box.ts';
import { lines } from './run-lines.ts';
import { setVariables } from './variables-of-run.ts';

/** Longest run. A client normally ends its run by closing the connection; this limit is for one that does not. */
const LONGEST_RUN_MS = LIMITS.runTimeoutMaxMs;
/** Longest time before the head of a response, while a run that waits or prints nothing is not refused. */
const LONGEST_HEAD_MS = 500;
const LANGUAGES: Readonly<Record<string, Language>> = {
  python: 'python',
  python3: 'python',
  javascript: 'javascript',
  js: 'javascript',
  typescript: 'typescript',
  ts: 'typescript',
};

interface ExecuteBody {
  readonly code: string;
  readonly context_id?: string | null;
  readonly language?: string | null;
  readonly env_vars?: Record<string, string> | null;
}
const EXECUTE_SCHEMA = {
  body: {
    type: 'object',
    required: ['code'],
    properties: {
      code: textUpTo(LIMITS.codeBytes),
      context_id: OPTIONAL_NAME,
      language: OPTIONAL_NAME,
      env_vars: ENVIRONMENT,
    },
  },
};
const CONTEXT_SCHEMA = {
  body: { type: ['object', 'null'], properties: { language: OPTIONAL_NAME, cwd: optionalTextUpTo(LIMITS.cwdLength) } },
};
interface ContextBody {
  Body: { language?: string | null; cwd?: string | null } | null;
}
interface ById {
  Params: { id: string };
}

/** Registers what E2B's code interpreter clients call at port 49999 of a sandbox. */
export async function interpreterRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  const home = new HomeDirectory();
  const contexts = new E2bContexts(deps);
  readJsonBodies(app, JSON_BODIES);
  refuseWhilePaused(app, deps);
  app.post<{ Body: ExecuteBody }>('/execute', { schema: EXECUTE_SCHEMA }, async (request, reply) => {
    const session = sessionOf(request, deps);
    const stop = new AbortController();
    // The listener is added to the response, because the connection is reused and would collect a listener for each
    // run.
    reply.raw.once('close', () => stop.abort());
    const { code, language } = request.body;
    const events = isBash(language)
      ? bashEvents(session, code, request.body.env_vars ?? {}, stop.signal)
      : execute(session, home, request.body, { stateOf: deps.stateOf, signal: stop.signal });
    const begun = await begunEvents(events);
    reply.type('application/x-ndjson').send(Readable.from(joined(lines(begun))));
    // Otherwise the head would wait for the first line, and the client's own time limit counts from the head.
    reply.raw.flushHeaders();
    return reply;
  });
  app.get('/contexts', async (request) => contexts.list(sessionOf(request, deps)));
  app.post<ContextBody>('/contexts', { schema: CONTEXT_SCHEMA }, async (request) => {
    const { cwd } = request.body ?? {};
    const language = languageOf(request.body?.language);
    const session = sessionOf(request, deps);
    return contexts.create(session, language, pathOf(cwd ?? '', 'user'));
  });
  app.delete<ById>('/contexts/:id', async (request, reply) => {
    await contexts.remove(sessionOf(request, deps), request.params.id);
    return reply.code(204).send();
  });
  app.post<ById>('/contexts/:id/restart', async (request, reply) => {
    await contexts.restart(sessionOf(request, deps), request.params.id);
    return reply.code(204).send();
  });
}

function languageOf(name: string | null | undefined): Language {
  const language = LANGUAGES[(name ?? 'python').toLowerCase()];
  if (language) return language;
  throw new GatewayError(400, `Cloche does not run "${name}"; use python, javascript, typescript or bash.`);
}

async function* execute(
  session: BoxSession,
  home: HomeDirectory,
  { code, context_id, language, env_vars }: ExecuteBody,
  { stateOf, signal }: Pick<E2bDeps, 'stateOf'> & { readonly signal: AbortSignal },
): AsyncGenerator<CodeRunEvent> {
  // An empty cell has no run.
  if (code === '') return;
  const { cloche, sandboxId, contexts } = session;
  const standing = standingLanguage(context_id);
  const context = context_id && !standing ? await contexts.get(context_id) : undefined;
  const chosen = context?.language ?? standing ?? languageOf(language);
  if (!context) await home.moveDefault(session, chosen);
  const target = { language: chosen, ...(context && { contextId: context.id }) };
  const body = { code, ...target, timeoutMs: LONGEST_RUN_MS };
  const hasVariables = env_vars && Object.keys(env_vars).length > 0;
  const restore = hasVariables ? await setVariables(session, target, env_vars) : undefined;
  try {
    for await (const event of cloche.stream('streamCode', { params: { sandboxId }, body, signal })) {
      const isCanceled = event.type === 'error' && event.data.name === 'CanceledError';
      if (isCanceled && !(await stateOf(sandboxId))) throw new GatewayError(502, 'The sandbox has ended.');
      yield event;
    }
  } finally {
    // Fails if the run has ended the sandbox or its context. Then there is nothing to restore.
    await restore?.().catch(() => undefined);
  }
}

/** Waits for the first event, so that the response to a refused run has an error status, but not for long. */
async function begunEvents(events: AsyncGenerator<CodeRunEvent>): Promise<AsyncGenerator<CodeRunEvent>> {
  const first = events.next();
  const silence = Promise.withResolvers<void>();
  const timer = setTimeout(silence.resolve, LONGEST_HEAD_MS);
  try {
    await Promise.race([first, silence.promise]);
  } finally {
    clearTimeout(timer);
  }
  return (async function* () {
    const { done, value } = await first;
    if (done) return;
    yield value;
    yield* events;
  })();
}
