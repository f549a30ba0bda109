/** Accesses the files of a sandbox with raw requests, because these tests check details that the SDK hides. */
import type { SandboxId } from '@cloche/contract';
import type { Api } from './api.ts';
import type { TestService } from './service.ts';

export interface SandboxFiles {
  readonly service: TestService;
  readonly api: Api;
  readonly sandboxId: SandboxId;
  /** Path of the operations on files. */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  contentUrl(path: string): string;
  read(path: string, headers?: Record<string, string>, method?: string): Promise<Response>;
  write(
    path: string,
    body: string | Uint8Array<ArrayBuffer> | ReadableStream,
    headers?: Record<string, string>,
  ): Promise<Response>;
  /** Runs a line in a shell and resolves with its output. */
  shell(line: string): Promise<string>;
  close(): Promise<void>;
}

/** Creates a sandbox for the tests of its files. Takes ownership of the service: closing the files closes it. */
export async function sandboxFiles(service: TestService, resources: Record<string, number>): Promise<SandboxFiles> {
  const { api } = service;
  const { id: sandboxId } = await api.readySandbox({ resources });
  const base = `/v1/sandboxes/${sandboxId}/files`;
  const headers = { authorization: `Bearer ${service.apiKey}` };
  const contentUrl = (path: string) => `${service.url}${base}/content?path=${encodeURIComponent(path)}`;
  return {
    service,
    api,
    sandboxId,
    base,
    headers,
    contentUrl,
    read: (path, more = {}, method = 'GET') => fetch(contentUrl(path), { method, headers: { ...headers, ...more } }),
    write: (path, body, more = {}) =>
      fetch(contentUrl(path), {
        method: 'PUT',
        headers: { ...headers, ...more },
        body,
        duplex: 'half',
      } as RequestInit),
    shell: async (line) => (await api.run(sandboxId, `!${line}`)).stdout.trim(),
    close: () => service.close(),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
export const jsonOf = (response: Response): Promise<any> => response.json();

/** Returns the status and the error code of a refusal. */
export async function codeOf(response: Response): Promise<[number, string | undefined]> {
  return [response.status, (await jsonOf(response)).error?.code];
}
