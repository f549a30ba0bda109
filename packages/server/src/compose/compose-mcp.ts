import { McpRouter } from '@cloche/mcp';
import type { Logger } from 'pino';
import type { HostRouter } from '../http/host-router.ts';

/** The part that answers clients of the Model Context Protocol. */
export interface Mcp {
  readonly router: HostRouter;
  /** Sets the URL of the service. Call it before the first request. */
  servedAt(url: string): void;
  close(): Promise<void>;
}

export function composeMcp({ version, log }: { readonly version: string; readonly log: Logger }): Mcp {
  let apiUrl = '';
  const router = new McpRouter({ apiUrl: () => apiUrl, version, log });
  return {
    router,
    servedAt(url) {
      apiUrl = url;
    },
    close: () => router.close(),
  };
}
