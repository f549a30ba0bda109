import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { WORKSPACE_ARCHIVE_TYPES, type WorkspaceArchiveFormat } from '@cloche/contract';
import { digestOf } from './archives.ts';
import type { Answer, Tenants } from './tenants.ts';

export interface Uploading {
  readonly format?: WorkspaceArchiveFormat;
  readonly idempotencyKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Uploads of archives to the runs of one service. */
export class ArchiveUploads {
  readonly #tenants: Tenants;

  constructor(tenants: Tenants) {
    this.#tenants = tenants;
  }

  /** Creates a run and returns its id. */
  async createRun(body: object = {}): Promise<string> {
    const answer = await this.call('POST', '/v1/workspace-runs', { body: { command: 'true', ...body } });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body.workspaceRun.id;
  }

  async run(id: string) {
    return (await this.call('GET', `/v1/workspace-runs/${id}`)).body.workspaceRun;
  }

  upload(id: string, bytes: Buffer, { format = 'tar', headers = {}, ...rest }: Uploading = {}): Promise<Answer> {
    return this.call('PUT', `/v1/workspace-runs/${id}/archive`, {
      body: bytes,
      headers: { 'content-type': WORKSPACE_ARCHIVE_TYPES[format], ...headers },
      ...rest,
    });
  }

  createTransfer(id: string, bytes: Buffer, changes: object = {}): Promise<Answer> {
    const body = { ...digestOf(bytes), format: 'tar', ...changes };
    return this.call('POST', `/v1/workspace-runs/${id}/archive-transfer`, { body });
  }

  finalize(id: string): Promise<Answer> {
    return this.call('POST', `/v1/workspace-runs/${id}/archive/finalize`);
  }

  call(method: string, path: string, sending: Parameters<Tenants['call']>[3] = {}): Promise<Answer> {
    return this.#tenants.call(this.#tenants.keys.whole, method, path, { idempotencyKey: randomUUID(), ...sending });
  }

  /** Names of what the service has stored in its folder: archives, and uploads that are still arriving. */
  stored(): { archives: string[]; arriving: string[] } {
    const folder = join(this.#tenants.folder, 'data/server/artifacts');
    const names = (path: string) => (existsSync(path) ? readdirSync(path) : []);
    const groups = names(join(folder, 'archives'));
    return {
      archives: groups.flatMap((group) => names(join(folder, 'archives', group))),
      arriving: names(join(folder, 'staging')),
    };
  }
}

/** Sends bytes to the URL of a transfer. */
export function sendTo(transfer: { url: string; headers: Record<string, string> }, bytes: Buffer): Promise<Response> {
  return fetch(transfer.url, { method: 'PUT', headers: transfer.headers, body: bytes });
}
