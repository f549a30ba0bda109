import type { Template, TemplateVersion } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

/** Templates that sandboxes can be created from. */
export class Templates {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  async list(options: CallOptions = {}): Promise<Template[]> {
    return (await this.#client.call('listTemplates', options)).data;
  }

  /** @param template a slug or a `tpl_` id. */
  async get(template: string, options: CallOptions = {}): Promise<Template> {
    return (await this.#client.call('getTemplate', { ...options, params: { template } })).template;
  }

  /** Lists all versions, newest first. @param template a slug or a `tpl_` id. */
  async versions(template: string, options: CallOptions = {}): Promise<TemplateVersion[]> {
    return (await this.#client.call('listTemplateVersions', { ...options, params: { template } })).data;
  }
}
