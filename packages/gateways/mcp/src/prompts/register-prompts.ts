import { LANGUAGES, LIMITS } from '@cloche/contract';
import { type Cloche, isClocheError } from '@cloche/sdk';
import { completable, type GetPromptResult, type McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { asBlock } from '../resources/file-content.ts';
import { readResource } from '../resources/read-resource.ts';
import { protocolError } from '../resources/register-resources.ts';

/** Most sandboxes that a prompt names. */
const LISTED = 50;
const TEXT_LENGTH = 20_000;
/** Longest URI of a resource: that of a path whose bytes all need an escape. */
const URI_LENGTH = LIMITS.filePathLength + 300;

const said = (text: string) => ({ role: 'user' as const, content: { type: 'text' as const, text } });
const text = (description: string) => z.string().min(1).max(TEXT_LENGTH).describe(description);

/** The arguments of each prompt, described once for all requests. */
export const PROMPT_ARGUMENTS = {
  solve_with_code: z.object({
    task: text('What to find out or to make.'),
    language: completable(z.enum(LANGUAGES).describe('Language of the code. Default: python.'), (begun) =>
      LANGUAGES.filter((language) => language.startsWith(begun ?? '')),
    ).optional(),
  }),
  discuss_file: z.object({
    file: z.string().min(1).max(URI_LENGTH).describe('URI of a file or an artifact, as the list of resources has it.'),
    question: text('What to say about it. Default: a summary.').optional(),
  }),
};

export interface PromptDeps {
  readonly cloche: Cloche;
  /** Aborts all requests. */
  readonly gone: AbortSignal | undefined;
}

/** Adds the prompts to a server: texts that a host offers to its user, with what they are about. */
export function registerPrompts(server: McpServer, { cloche, gone }: PromptDeps): void {
  const signalOf = (signal: AbortSignal) => (gone ? AbortSignal.any([signal, gone]) : signal);
  server.registerPrompt(
    'solve_with_code',
    {
      title: 'Solve with code',
      description: 'Has a task solved by code that runs in a sandbox.',
      argsSchema: PROMPT_ARGUMENTS.solve_with_code,
    },
    ({ task, language = 'python' }) => ({
      messages: [
        said(
          `Solve this by running ${language} with \`run_code\`, in small steps whose results you check: ${task}\n\n` +
            'Use only results that the code has printed or returned. If a step fails, say why, and mend it.',
        ),
      ],
    }),
  );
  server.registerPrompt(
    'discuss_file',
    {
      title: 'Discuss a file',
      description: 'Shows a file of a sandbox or an artifact, and asks about it.',
      argsSchema: PROMPT_ARGUMENTS.discuss_file,
    },
    async ({ file, question = 'Summarize it, and name what is unusual in it.' }, { mcpReq }) => {
      const content = await refusedAs(file, readResource(cloche, file, signalOf(mcpReq.signal)));
      return { messages: [{ role: 'user', content: asBlock(content) }, said(question)] } satisfies GetPromptResult;
    },
  );
  server.registerPrompt(
    'tidy_up',
    { title: 'Tidy up', description: 'Lists the sandboxes that live, and asks which of them to keep.' },
    async ({ mcpReq }) => {
      const query = { limit: LISTED };
      const page = cloche.call('listSandboxes', { query, signal: signalOf(mcpReq.signal) });
      const { data } = await refusedAs('sandboxes', page);
      const lines = data.map(({ id, templateSlug, status, expiresAt, metadata }) =>
        JSON.stringify({ id, template: templateSlug, status, expiresAt, metadata }),
      );
      const those = lines.length === 0 ? 'No sandbox lives.' : `These sandboxes live:\n${lines.join('\n')}`;
      const ask =
        'Ask me which of them I still need. Keep files that I name with `artifact_export`, then destroy the rest';
      return { messages: [said(`${those}\n\n${ask} with \`sandbox_kill\`.`)] };
    },
  );
}

async function refusedAs<T>(uri: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    throw isClocheError(error) ? protocolError(error, uri) : error;
  }
}
