import type { CodeOutput, CodeRun } from '@cloche/contract';
import { LANGUAGES, LIMITS } from '@cloche/contract';
import { runCode } from '@cloche/sdk';
import { z } from 'zod';
import { usedSandboxId } from './schemas.ts';
import { type Content, describeTool } from './tool.ts';

const IMAGES: readonly string[] = ['png', 'jpeg', 'gif'];

/** The tool that runs code. */
export const codeTools = [
  describeTool(
    'run_code',
    {
      title: 'Run code',
      description:
        'Runs Python, JavaScript or TypeScript like a cell of a notebook: variables are kept for the next run in the same ' +
        'sandbox, and the value of the last expression is the result. Plots are returned as images. Without `sandboxId` it uses ' +
        'the sandbox of the session, or a new one if the client has no session.',
      input: z.object({
        code: z.string().min(1).max(LIMITS.codeBytes).describe('The code.'),
        language: z.enum(LANGUAGES).default('python'),
        sandboxId: usedSandboxId,
        timeoutMs: z.int().min(1).max(LIMITS.runTimeoutMaxMs).default(60_000).describe('Time limit in milliseconds.'),
      }),
      output: z.object({
        sandboxId: z.string(),
        stdout: z.string(),
        stderr: z.string(),
        result: z.string().optional().describe('Text of the value of the last expression.'),
        error: z.object({ name: z.string(), message: z.string() }).optional(),
        durationMs: z.number().optional(),
      }),
    },
    async ({ code, language, sandboxId, timeoutMs }, { cloche, signal, sandbox, output }) => {
      const usedId = await sandbox.id(sandboxId, true);
      const run = await runCode(cloche, usedId, code, { language, timeoutMs, signal, ...output });
      return { output: outputOf(usedId, run), content: contentOf(usedId, run) };
    },
  ),
];

function outputOf(sandboxId: string, { stdout, stderr, outputs, error, durationMs }: CodeRun) {
  const result = outputs.find(({ role, format }) => role === 'result' && format === 'text')?.value;
  return {
    sandboxId,
    stdout,
    stderr,
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error: { name: error.name, message: error.message } }),
    ...(durationMs === undefined ? {} : { durationMs }),
  };
}

/** Shows a run as a notebook does: output, images, the result, an error with its traceback, and where it ran. */
function contentOf(sandboxId: string, { stdout, stderr, outputs, error }: CodeRun): Content {
  const text = (value: string) => ({ type: 'text' as const, text: value });
  return [
    ...(stdout === '' ? [] : [text(stdout)]),
    ...(stderr === '' ? [] : [text(`stderr:\n${stderr}`)]),
    ...outputs.flatMap(shown),
    ...(error ? [text((error.traceback ?? [`${error.name}: ${error.message}`]).join('\n'))] : []),
    text(`sandboxId: ${sandboxId}`),
  ];
}

/** Returns an image, a drawing or document as a resource, or the text of a value. Its other forms say the same. */
function shown({ format, value = '', mimeType, kind, bundle }: CodeOutput): Content {
  if (kind !== 'inline') return [];
  if (IMAGES.includes(format)) return [{ type: 'image', data: value, mimeType }];
  const uri = `cloche://run/output-${bundle}.${format}`;
  if (format === 'svg') return [{ type: 'resource', resource: { uri, mimeType, text: value } }];
  if (format === 'pdf') return [{ type: 'resource', resource: { uri, mimeType, blob: value } }];
  return format === 'text' || format === 'markdown' ? [{ type: 'text', text: value }] : [];
}
