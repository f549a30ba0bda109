import type { CodeOutput, CodeRun, SandboxId } from '@cloche/contract';
import { LANGUAGES, LIMITS } from '@cloche/contract';
import { runCode } from '@cloche/sdk';
import { z } from 'zod';
import { createSandbox } from './create-sandbox.ts';
import { id } from './schemas.ts';
import { type Content, describeTool } from './tool.ts';

/** A sandbox that a run has created ends when it is not used for this long. */
const IDLE_TIMEOUT_MS = 600_000;
const IMAGES: Readonly<Record<string, string>> = { png: 'image/png', jpeg: 'image/jpeg', gif: 'image/gif' };

/** The tool that runs code. */
export const codeTools = [
  describeTool(
    'run_code',
    {
      title: 'Run code',
      description:
        'Runs Python, JavaScript or TypeScript like a cell of a notebook: variables are kept for the next run in the same ' +
        'sandbox, and the value of the last expression is the result. Plots are returned as images. Without `sandboxId` a new ' +
        'sandbox is created, which ends when it is not used for ten minutes.',
      input: z.object({
        code: z.string().min(1).max(LIMITS.codeBytes).describe('The code.'),
        language: z.enum(LANGUAGES).default('python'),
        sandboxId: id().optional().describe('Sandbox of an earlier call. Default: a new one.'),
        timeoutMs: z.int().min(1).max(600_000).default(60_000).describe('Time limit in milliseconds.'),
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
    async ({ code, language, sandboxId, timeoutMs }, { cloche, signal, report }) => {
      const usedId =
        (sandboxId as SandboxId | undefined) ??
        (await createSandbox(cloche, { idleTimeoutMs: IDLE_TIMEOUT_MS }, signal)).id;
      const run = await runCode(cloche, usedId, code, {
        language,
        timeoutMs,
        signal,
        onStdout: report,
        onStderr: report,
      });
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

/** Returns an image, or the text of a value. The other forms of a value say the same. */
function shown({ format, value = '', kind }: CodeOutput): Content {
  const mimeType = IMAGES[format];
  if (mimeType !== undefined && kind === 'inline') return [{ type: 'image', data: value, mimeType }];
  return format === 'text' || format === 'markdown' ? [{ type: 'text', text: value }] : [];
}
