import { sampleCommand, sampleContext, sampleRun, sampleSandbox, sampleWorkspaceRun } from '@cloche/sdk/testing';
import type { Argument, Command } from 'commander';
import { buildWholeProgram } from '../src/program.ts';
import { processTerminal } from '../src/terminal/terminal.ts';

/** Values for the arguments of all commands, by their names. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  archive: ['image.tar'],
  artifact: ['art_1'],
  artifacts: ['art_1', 'art_2'],
  command: ['cmd_1'],
  context: ['cctx_1'],
  delivery: ['whd_1'],
  duration: ['1h'],
  file: [],
  folder: [],
  from: ['Dockerfile'],
  job: ['wrun_1'],
  jobs: ['wrun_1'],
  key: ['key_1'],
  name: ['prod'],
  'name=number': ['previews=3'],
  path: ['/workspace/file'],
  port: ['8000'],
  preview: ['prv_1'],
  project: ['prj_1'],
  projects: ['prj_1'],
  sandbox: ['sbx_1'],
  sandboxes: ['sbx_1', 'sbx_2'],
  'sandbox:path': ['sbx_1:/workspace/old'],
  secret: ['sec_1'],
  secrets: ['sec_1'],
  shell: ['bash'],
  template: ['report'],
  templates: ['report'],
  to: ['sbx_1:/workspace/'],
  url: ['http://127.0.0.1:9/hook'],
  version: [],
  webhook: ['whk_1'],
  webhooks: ['whk_1'],
  build: ['bld_1'],
};

/** Further options of a command, or its whole command line. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  run: ['-c', '1'],
  exec: ['sbx_1', '--', 'true'],
  'job run': ['--', 'true'],
  'template build': ['--slug', 'report'],
  'template import': ['--slug', 'report'],
  'project update': ['--name', 'other'],
  'secret create': ['--hosts', 'example.com'],
  'secret update': ['--value'],
  'key create': ['--scopes', '*'],
  'webhook create': ['--events', '*'],
  'webhook update': ['--enable'],
  'admin key create': ['--scopes', '*'],
  'admin quota set': ['--org', 'acme'],
};

/**
 * Commands left out: they change this machine, examine it for half a minute, or speak a protocol with a program
 * (mcp.test.ts).
 */
const NOT_HERE = [
  'mcp',
  'start',
  'doctor',
  'migrate',
  'template export',
  'template refresh',
  'template revert',
  'admin copy-database',
];

/** Returns a command line for each command that exists, by the command's name. */
export async function everyCommand(): Promise<ReadonlyMap<string, readonly string[]>> {
  const program = await buildWholeProgram('1', processTerminal());
  return new Map(
    leavesOf(program, [])
      .map(([names, command]) => [names.join(' '), lineOf(names, command)] as const)
      .filter(([name]) => !NOT_HERE.includes(name)),
  );
}

function leavesOf(command: Command, names: readonly string[]): [names: readonly string[], command: Command][] {
  if (command.commands.length === 0) return [[names, command]];
  return command.commands.flatMap((each) => leavesOf(each, [...names, each.name()]));
}

function lineOf(names: readonly string[], { registeredArguments }: Command): readonly string[] {
  const more = MORE[names.join(' ')] ?? [];
  const isWhole = registeredArguments.some((argument) => argument.variadic && argument.name() === 'command');
  // Without a sandbox, top lists all sandboxes.
  const args =
    isWhole || names[0] === 'top' ? [] : registeredArguments.flatMap((argument) => valuesOf(argument, names));
  return [...names, ...args, ...more];
}

function valuesOf(argument: Argument, names: readonly string[]): readonly string[] {
  const values = ARGUMENTS[argument.name()];
  if (values === undefined) throw new Error(`Give "${argument.name()}" of ${names.join(' ')} a value.`);
  return values;
}

const AT = '2026-01-01T00:00:00.000Z';
const record = { id: 'any_1', name: 'any', orgId: 'org_1', projectId: 'prj_1', createdAt: AT, updatedAt: AT };
const build = { ...record, templateId: 'tpl_1', templateSlug: 'report', status: 'succeeded', steps: [] };
const delivery = { ...record, eventType: 'sandbox.created', status: 'delivered', attempts: [] };
/** An event of the organization. */
export const EVENT = { ...record, seq: 1, at: AT, type: 'sandbox.created', data: { sandbox: { id: 'sbx_1' } } };
const command = sampleCommand({ status: 'exited', exitCode: 0 });
const workspaceRun = sampleWorkspaceRun({ status: 'succeeded', exitCode: 0, finishedAt: AT });
const sandbox = sampleSandbox({ status: 'ready' });

/** Response to every request: an object with the fields of all responses. */
export function answerTo(path: string): object {
  const isSecret = path.startsWith('/v1/secrets');
  return {
    data: path.startsWith('/v1/sandboxes?') ? [sandbox, { ...sandbox, id: 'sbx_2' }] : [],
    hasMore: false,
    nextSeq: 0,
    destroyed: 3,
    ...{ sandbox, command, workspaceRun, build, delivery, context: sampleContext(), run: sampleRun() },
    apiKey: { ...record, scopes: ['*'], prefix: 'clk_', lastUsedAt: AT },
    artifact: { ...record, sizeBytes: 3, sha256: 'a', contentType: 'text/plain', expiresAt: AT, metadata: {} },
    download: { url: 'http://127.0.0.1:9/file', expiresAt: AT },
    file: { path: '/workspace/file', type: 'file', sizeBytes: 1, mode: 'rw-r--r--', modifiedAt: AT },
    key: { ...record, secret: 'clk_1', scopes: ['*'] },
    organization: record,
    preview: { ...record, url: 'http://prv-1.localhost:9/', visibility: 'private', port: 8000, expiresAt: AT },
    project: { ...record, metadata: {}, quotas: {} },
    secret: isSecret ? { ...record, hosts: ['example.com'] } : 'whsec_1',
    template: { ...record, slug: 'report', description: '', languages: [] },
    webhook: { ...record, url: 'http://127.0.0.1:9/hook', events: ['*'], status: 'enabled' },
  };
}

/** Returns the last event of a stream; undefined for a stream that goes on. */
export function lastEventOf(path: string): object | undefined {
  if (path.startsWith('/v1/events')) return undefined;
  if (path.includes('/commands')) return { type: 'exit', data: command };
  if (path.includes('/workspace-runs')) return { type: 'exit', data: workspaceRun };
  return { type: 'complete', data: path.includes('/builds') ? build : sampleRun() };
}
