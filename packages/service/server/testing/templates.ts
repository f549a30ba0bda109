/** Templates of organizations on a fake runtime, called as the HTTP layer calls them. */
import {
  type CreateTemplateBody,
  operations,
  type Template,
  type TemplateBuild,
  type TemplateBuildEvent,
  type TemplateRecipe,
} from '@cloche/contract';
import type { SandboxesWorld } from './sandboxes.ts';
import type { TestRequest } from './test-request.ts';

export interface Building {
  readonly template: Template;
  readonly build: TemplateBuild;
}

const PATIENCE_MS = 60_000;

/** A recipe of the toy language, whose lines the fake runtime runs. */
export function recipe(...lines: string[]): TemplateRecipe {
  return { from: 'node', setup: lines.map((run) => ({ run })) };
}

/** A recipe whose version has a content of its own. */
export function containing(content: string): TemplateRecipe {
  return { from: 'node', files: [{ path: '/opt/content', content }] };
}

export function createTemplate(
  world: SandboxesWorld,
  body: CreateTemplateBody,
  call: TestRequest = {},
): Promise<Building> {
  return world.call(operations.createTemplate, { ...call, body });
}

/** Waits for the end of a build. */
export async function endOf(world: SandboxesWorld, { templateId, id }: TemplateBuild): Promise<TemplateBuild> {
  const params = { template: templateId, buildId: id };
  return (await world.call(operations.getTemplateBuild, { params, query: { waitMs: PATIENCE_MS } })).build;
}

/** Creates a template and waits for its build. */
export async function built(world: SandboxesWorld, body: CreateTemplateBody): Promise<Building> {
  const { template, build } = await createTemplate(world, body);
  return { template, build: await endOf(world, build) };
}

/** Builds a template again and waits for the build. */
export async function rebuilt(world: SandboxesWorld, template: string, body: TemplateRecipe): Promise<TemplateBuild> {
  const { build } = await world.call(operations.createTemplateBuild, { params: { template }, body });
  return endOf(world, build);
}

export async function followBuild(
  world: SandboxesWorld,
  { templateId, id }: TemplateBuild,
): Promise<AsyncIterable<TemplateBuildEvent>> {
  const found = world.routes.find((route) => route.operation.id === 'streamTemplateBuildLogs');
  if (found?.kind !== 'stream') throw new Error('streamTemplateBuildLogs is no stream route');
  const context = world.context({ params: { template: templateId, buildId: id } });
  return (await found.handle(context)) as AsyncIterable<TemplateBuildEvent>;
}
