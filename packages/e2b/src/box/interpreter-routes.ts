import { Readable } from 'node:stream';
import { type CodeContext, type CodeOutput, type CodeRunEvent, type Language, LIMITS } from '@cloche/contract';
import { isClocheError } from '@cloche/sdk';
import type { FastifyInstance } from 'fastify';
import { ENVIRONMENT, OPTIONAL_NAME, optionalTextUpTo, textUpTo } from '../bounded-schemas.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { joined } from '../joined.ts';
import { readJsonBodies } from '../read-json.ts';
import { type BoxSession, pathOf, sessionOf } from './box-session.ts';
import { resultsOf } from './e2b-result.ts';
import { HomeDirectory, moveOnce } from './home-directory.ts';
import { setVariables } from './variables-of-run.ts';

/** Longest run. A client normally ends its run by closing the connection; this limit is for one that does not. */
const LONGEST_RUN_MS = 600_000;
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
  readJsonBodies(app);
  app.post<{ Body: ExecuteBody }>('/execute', { schema: EXECUTE_SCHEMA }, async (request, reply) => {
    const session = sessionOf(request, deps);
    const stop = new AbortController();
    // The listener is added to the response, because the connection is reused and would collect a listener for each
    // run.
    reply.raw.once('close', () => stop.abort());
    const events = await begun(execute(session, home, request.body, stop.signal));
    return reply.type('application/x-ndjson').send(Readable.from(joined(lines(events))));
  });
  app.get('/contexts', async (request) =>
    (await sessionOf(request, deps).contexts.list()).map(({ info }) => contextOf(info)),
  );
  app.post<ContextBody>('/contexts', { schema: CONTEXT_SCHEMA }, async (request) => {
    const { cwd } = request.body ?? {};
    const language = languageOf(request.body?.language);
    const session = sessionOf(request, deps);
    const { info } = await session.contexts.create({ language });
    await begin(session, info, pathOf(cwd ?? '', 'user'));
    return contextOf(info);
  });
  app.delete<ById>('/contexts/:id', async (request, reply) => {
    const { contexts } = sessionOf(request, deps);
    await contexts.get(request.params.id);
    await contexts.delete(request.params.id);
    return reply.code(204).send();
  });
  app.post<ById>('/contexts/:id/restart', async (request, reply) => {
    const session = sessionOf(request, deps);
    const context = await session.contexts.get(request.params.id);
    await context.restart();
    await begin(session, context.info, pathOf('', 'user'));
    return reply.code(204).send();
  });
}

/** Moves a new kernel to its directory. */
function begin(session: BoxSession, { id, language }: CodeContext, directory: string): Promise<void> {
  return moveOnce(session, { language, contextId: id }, directory);
}

function languageOf(name: string | null | undefined): Language {
  const language = LANGUAGES[(name ?? 'python').toLowerCase()];
  if (language) return language;
  throw new E2bError(400, `Cloche does not run "${name}"; use python, javascript or typescript.`);
}

function contextOf({ id, language, cwd }: CodeContext) {
  return { id, language, cwd };
}

async function* execute(
  session: BoxSession,
  home: HomeDirectory,
  { code, context_id, language, env_vars }: ExecuteBody,
  signal: AbortSignal,
): AsyncGenerator<CodeRunEvent> {
  // An empty cell has no run.
  if (code === '') return;
  const { cloche, sandboxId, contexts } = session;
  const context = context_id ? await contexts.get(context_id) : undefined;
  if (!context) await home.moveDefault(session, languageOf(language));
  const target = { language: context?.language ?? languageOf(language), ...(context && { contextId: context.id }) };
  const body = { code, ...target, timeoutMs: LONGEST_RUN_MS };
  const hasVariables = env_vars && Object.keys(env_vars).length > 0;
  const restore = hasVariables ? await setVariables(session, target, env_vars) : undefined;
  try {
    yield* cloche.stream('streamCode', { params: { sandboxId }, body, signal });
  } finally {
    // Fails if the run has ended the sandbox or its context. Then there is nothing to restore.
    await restore?.().catch(() => undefined);
  }
}

/** Waits for the first event, so that the response to a refused run has an error status. */
async function begun(events: AsyncGenerator<CodeRunEvent>): Promise<AsyncGenerator<CodeRunEvent>> {
  const first = await events.next();
  return (async function* () {
    if (first.done) return;
    yield first.value;
    yield* events;
  })();
}

/** Translates the events of a run to the lines that the clients read. */
async function* lines(events: AsyncIterable<CodeRunEvent>): AsyncGenerator<string> {
  const line = (message: object) => `${JSON.stringify(message)}\n`;
  const timestamp = () => new Date().toISOString();
  let bundle: CodeOutput[] = [];
  const flush = () => resultsOf(bundle.splice(0)).map(line);
  try {
    for await (const event of events) {
      if (event.type === 'output' && bundle[0] !== undefined && bundle[0].bundle !== event.data.bundle) yield* flush();
      if (event.type === 'output') {
        bundle = [...bundle, event.data];
        continue;
      }
      yield* flush();
      if (event.type === 'stdout' || event.type === 'stderr') {
        yield line({ type: event.type, text: event.data, timestamp: timestamp() });
      }
      if (event.type === 'error') {
        const { name, message, traceback = [] } = event.data;
        yield line({ type: 'error', name, value: message, traceback: traceback.join('\n') || `${name}: ${message}` });
      }
      if (event.type === 'complete') {
        yield line({ type: 'number_of_executions', execution_count: event.data.executionCount });
      }
    }
  } catch (error) {
    if (!isClocheError(error)) throw error;
    yield line({ type: 'error', name: error.code, value: error.message, traceback: `${error.code}: ${error.message}` });
  }
  yield line({ type: 'end_of_execution' });
}
