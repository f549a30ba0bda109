import { RUNS_UPGRADE } from '@cloche/protocol';

const BYTES = 1024;

export interface FirstRun {
  /** Id of the context and of the run. */
  id: string;
  language: 'python' | 'javascript';
  cwd: string;
  code: string;
  /** Milliseconds, for opening the context and for the run. */
  timeoutMs: number;
}

/** Returns the bytes that open a connection for runs and start the first run of a context. */
export function firstRunRequest({ id, language, cwd, code, timeoutMs }: FirstRun): string {
  const limits = { stdoutBytes: BYTES, stderrBytes: BYTES, outputBytes: BYTES, outputsBytes: BYTES };
  const run = { contextId: id, open: { language, cwd, timeoutMs }, runId: id, code, timeoutMs, limits };
  const head = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
  return `${head}${JSON.stringify(run)}\n`;
}
