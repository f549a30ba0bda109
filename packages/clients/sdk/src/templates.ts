import type {
  CreateTemplateBody,
  ImageSettings,
  RegistryImage,
  Template,
  TemplateBuild,
  TemplateBuildEvent,
  TemplateBuildLogPage,
  TemplateRecipe,
  TemplateVersion,
  UpdateTemplateBody,
} from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface BuildWaitOptions extends CallOptions {
  /** Milliseconds to wait for the end of the build; at most a minute. Default: none. */
  waitMs?: number | undefined;
}

export interface BuildLogOptions extends CallOptions {
  /** Only entries with a larger sequence number. */
  afterSeq?: number | undefined;
}

/** Templates that sandboxes can be created from: the curated ones and those of the organization. */
export class Templates {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  list(options: PageOptions = {}): PagedList<Template> {
    return pagedList(this.#client, 'listTemplates', options);
  }

  /** @param template a slug or a `tpl_` id. */
  async get(template: string, options: CallOptions = {}): Promise<Template> {
    return (await this.#client.call('getTemplate', { ...options, params: { template } })).template;
  }

  /** Lists all versions, newest first. @param template a slug or a `tpl_` id. */
  versions(template: string, options: PageOptions = {}): PagedList<TemplateVersion> {
    return pagedList(this.#client, 'listTemplateVersions', { ...options, params: { template } });
  }

  /**
   * Creates a template, which can be used when its first build has succeeded.
   *
   * ```ts
   * const { build } = await cloche.templates.create({ slug: 'reports', from: 'python-node', packages: { pip: ['jinja2'] } });
   * await cloche.templates.waitForBuild(build);
   * const sandbox = await cloche.sandboxes.create({ template: 'reports' });
   * ```
   */
  create(body: CreateTemplateBody, options: CallOptions = {}): Promise<{ template: Template; build: TemplateBuild }> {
    return this.#client.call('createTemplate', { ...options, body });
  }

  /** Sets the given fields; `defaultVersionId` goes back to an earlier version. */
  async update(template: string, body: UpdateTemplateBody, options: CallOptions = {}): Promise<Template> {
    return (await this.#client.call('updateTemplate', { ...options, params: { template }, body })).template;
  }

  async delete(template: string, options: CallOptions = {}): Promise<Template> {
    return (await this.#client.call('deleteTemplate', { ...options, params: { template } })).template;
  }

  /** Builds a version of a template from a recipe. */
  async build(template: string, body: TemplateRecipe, options: CallOptions = {}): Promise<TemplateBuild> {
    return (await this.#client.call('createTemplateBuild', { ...options, params: { template }, body })).build;
  }

  /** Reads the settings of an image from its registry, which takes a sandbox for a few seconds. */
  async inspectImage(body: RegistryImage, options: CallOptions = {}): Promise<ImageSettings> {
    return (await this.#client.call('inspectImage', { ...options, body })).image;
  }

  /** Lists the builds of a template, newest first. */
  builds(template: string, options: PageOptions = {}): PagedList<TemplateBuild> {
    return pagedList(this.#client, 'listTemplateBuilds', { ...options, params: { template } });
  }

  async getBuild(
    template: string,
    buildId: string,
    { waitMs, ...call }: BuildWaitOptions = {},
  ): Promise<TemplateBuild> {
    const query = waitMs === undefined ? {} : { waitMs };
    return (await this.#client.call('getTemplateBuild', { ...call, params: paramsOf(template, buildId), query })).build;
  }

  /** Waits until a build has ended, however long that takes, and returns it. */
  async waitForBuild({ templateId, id }: Pick<TemplateBuild, 'templateId' | 'id'>, call: CallOptions = {}) {
    for (;;) {
      const build = await this.getBuild(templateId, id, { ...call, waitMs: 30_000 });
      if (build.finishedAt !== undefined) return build;
    }
  }

  async buildLogs(
    template: string,
    buildId: string,
    { afterSeq, limit, ...call }: BuildLogOptions & { limit?: number | undefined } = {},
  ): Promise<TemplateBuildLogPage> {
    const query = { ...(afterSeq === undefined ? {} : { afterSeq }), ...(limit === undefined ? {} : { limit }) };
    return this.#client.call('listTemplateBuildLogs', { ...call, params: paramsOf(template, buildId), query });
  }

  /**
   * Yields the log so far and the log to come, in order, then `complete` with the ended build. Reconnects where it
   * stopped. Leaving the loop does not affect the build.
   */
  followBuild(
    template: string,
    buildId: string,
    { afterSeq = 0, ...call }: BuildLogOptions = {},
  ): AsyncGenerator<TemplateBuildEvent, void> {
    const params = paramsOf(template, buildId);
    return this.#client.followBuild('streamTemplateBuildLogs', { ...call, params, query: { afterSeq } });
  }

  /** Ends a build and its sandbox. A build that has ended is returned unchanged. */
  async cancelBuild(template: string, buildId: string, options: CallOptions = {}): Promise<TemplateBuild> {
    return (await this.#client.call('cancelTemplateBuild', { ...options, params: paramsOf(template, buildId) })).build;
  }
}

function paramsOf(template: string, buildId: string) {
  return { template, buildId: buildId as TemplateBuild['id'] };
}
