import { LIMITS, type SandboxId, WAKE_MODES } from '@cloche/contract';
import type { SandboxInfo } from '@cloche/sdk';
import { z } from 'zod';
import { createSandbox } from '../sessions/create-sandbox.ts';
import { id, labels, sandboxId, texts, usedSandboxId } from './schemas.ts';
import { describeTool } from './tool.ts';

const sandbox = z.object({
  id: z.string(),
  name: z.string().optional(),
  status: z.string(),
  template: z.string(),
  expiresAt: z.string(),
  pausedAt: z.string().optional(),
  metadata: z.record(z.string(), z.string()),
});
const byId = { sandboxId: usedSandboxId };
const ttlMs = z.int().min(1).describe('Lifetime from now, in milliseconds.');

/** Only `/v1` knows how many bytes all variables together may have. */
const VARIABLES = { entries: LIMITS.envEntries, nameLength: LIMITS.envBytes, valueLength: LIMITS.envBytes };

const ms = () => z.int().min(1).optional();

/** Leaves bounds of values to `/v1`. */
const PAUSE = z
  .object({
    afterIdleMs: ms().describe('Pause it when nothing has used it for so long, in milliseconds.'),
    onExpiry: z.boolean().optional().describe('Whether to pause it at the end of its lifetime, not destroy it.'),
    wake: z.enum(WAKE_MODES).optional().describe('What wakes it: `explicit`, sandbox_resume alone.'),
    wakeTtlMs: ms().describe('Lifetime after a wake, in milliseconds.'),
    retainMs: ms().describe('Destroy it when it is paused for so long, in milliseconds.'),
  })
  .describe('When it is paused by itself, and for how long. Default: never.');

/** The tools that create, find and end sandboxes. */
export const sandboxTools = [
  describeTool(
    'sandbox_create',
    {
      title: 'Create a sandbox',
      description:
        'Creates a sandbox with a lifetime, and optionally with labels, environment variables and no network. It can be paused by itself.',
      input: z.object({
        name: id().optional().describe('Name that no other sandbox of the project has.'),
        template: id().optional().describe('Slug or id of a template. Default: Python and Node.js.'),
        ttlMs: ttlMs.optional(),
        metadata: labels().optional().describe('Labels.'),
        env: texts(VARIABLES).optional().describe('Environment variables.'),
        pause: PAUSE.optional(),
        network: z.boolean().default(true).describe('Whether the sandbox reaches the internet.'),
      }),
      output: z.object({ sandbox }),
    },
    async ({ network, pause, ...given }, { cloche, signal }) => {
      const policy = pause && { pause: defined(pause) };
      const body = {
        ...defined(given),
        ...policy,
        ...(network ? {} : { networkPolicy: { mode: 'deny-all' as const } }),
      };
      return { output: { sandbox: infoOf((await createSandbox(cloche, body, signal)).info) } };
    },
  ),
  describeTool(
    'sandbox_list',
    {
      title: 'List sandboxes',
      description: 'Lists the sandboxes that live, newest first.',
      input: z.object({
        metadata: labels().default({}).describe('Labels that they must have.'),
      }),
      output: z.object({ sandboxes: z.array(sandbox) }),
      readOnly: true,
    },
    async ({ metadata }, { cloche, signal }) => {
      const found = await cloche.sandboxes.list({ metadata, signal });
      return { output: { sandboxes: found.map(({ info }) => infoOf(info)) } };
    },
  ),
  describeTool(
    'sandbox_get',
    {
      title: 'Get a sandbox',
      description: 'Returns the state of a sandbox.',
      input: z.object(byId),
      output: z.object({ sandbox }),
      readOnly: true,
    },
    async ({ sandboxId }, { cloche, signal, sandbox }) => {
      const { info } = await cloche.sandboxes.get(await sandbox.id(sandboxId), { signal });
      return { output: { sandbox: infoOf(info) } };
    },
  ),
  describeTool(
    'sandbox_extend',
    {
      title: 'Extend a sandbox',
      description: 'Lets a sandbox live longer: it then expires `ttlMs` from now.',
      input: z.object({ ...byId, ttlMs }),
      output: z.object({ sandbox }),
    },
    async ({ sandboxId, ttlMs }, { cloche, signal, sandbox: used }) => {
      const params = { sandboxId: await used.id(sandboxId) };
      const { sandbox: extended } = await cloche.call('setSandboxTtl', { params, body: { ttlMs }, signal });
      return { output: { sandbox: infoOf(extended) } };
    },
  ),
  describeTool(
    'sandbox_pause',
    {
      title: 'Pause a sandbox',
      description:
        'Pauses a sandbox: nothing in it executes, its lifetime stops, and its files, variables and processes are kept. ' +
        'The next call that needs it wakes it.',
      input: z.object({
        ...byId,
        force: z.boolean().default(false).describe('Whether to end code and commands that other calls wait for.'),
        retainMs: ms().describe('Destroy it when it is paused for so long, in milliseconds.'),
      }),
      output: z.object({ sandbox }),
    },
    async ({ sandboxId, ...body }, { cloche, signal, sandbox: used }) => {
      const params = { sandboxId: await used.id(sandboxId) };
      const { sandbox: paused } = await cloche.call('pauseSandbox', { params, body: defined(body), signal });
      return { output: { sandbox: infoOf(paused) } };
    },
  ),
  describeTool(
    'sandbox_resume',
    {
      title: 'Resume a sandbox',
      description: 'Resumes a paused sandbox, whose lifetime begins anew.',
      input: z.object({ ...byId, ttlMs: ttlMs.optional() }),
      output: z.object({ sandbox }),
    },
    async ({ sandboxId, ...body }, { cloche, signal, sandbox: used }) => {
      const params = { sandboxId: await used.id(sandboxId) };
      const { sandbox: resumed } = await cloche.call('resumeSandbox', { params, body: defined(body), signal });
      return { output: { sandbox: infoOf(resumed) } };
    },
  ),
  describeTool(
    'sandbox_kill',
    {
      title: 'Destroy a sandbox',
      description: 'Destroys a sandbox and its files at once.',
      input: z.object({ sandboxId }),
      output: z.object({ sandbox }),
    },
    async ({ sandboxId }, { cloche, signal }) => {
      const { sandbox: ended } = await cloche.call('killSandbox', {
        params: { sandboxId: sandboxId as SandboxId },
        signal,
      });
      return { output: { sandbox: infoOf(ended) } };
    },
  ),
];

function infoOf({ id, name, status, templateSlug, expiresAt, paused, metadata }: SandboxInfo) {
  const pausedAt = paused?.at;
  return { id, ...defined({ name }), status, template: templateSlug, expiresAt, ...defined({ pausedAt }), metadata };
}

/** Leaves out what was not given, because `undefined` is no value of a body. */
function defined<T extends object>(given: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof T]: Exclude<T[Key], undefined> };
}
