/** A sandbox, and its files as bytes on connections: what the SDK hides, these tests look at. */
import type { Api } from './api.ts';
import type { TestService } from './service.ts';

export interface SandboxFiles {
  readonly service: TestService;
  readonly api: Api;
  readonly sandboxId: string;
  /** Path of the operations on them. */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  contentUrl(path: string): string;
  read(path: string, headers?: Record<string, string>, method?: string): Promise<Response>;
  write(
    path: string,
    body: string | Uint8Array<ArrayBuffer> | ReadableStream,
    headers?: Record<string, string>,
  ): Promise<Response>;
  /** What it printed. */
  shell(line: string): Promise<string>;
  close(): Promise<void>;
}

/** The service is theirs from now on: it closes with them. */
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

/** Status and code of a refusal. */
export async function codeOf(response: Response): Promise<[number, string | undefined]> {
  return [response.status, (await jsonOf(response)).error?.code];
}
