import { RUNS_UPGRADE } from '@cloche/protocol';

const BYTES = 1024;

export interface FirstRun {
  /** Of the context, and of the run. */
  id: string;
  language: 'python' | 'javascript';
  cwd: string;
  code: string;
  /** Milliseconds, for the context and for the run. */
  timeoutMs: number;
}

/** What a connection to the agent begins with where it is opened for the first run of a context. */
export function firstRunRequest({ id, language, cwd, code, timeoutMs }: FirstRun): string {
  const limits = { stdoutBytes: BYTES, stderrBytes: BYTES, outputBytes: BYTES, outputsBytes: BYTES };
  const run = { contextId: id, open: { language, cwd, timeoutMs }, runId: id, code, timeoutMs, limits };
  const head = `GET /runs HTTP/1.1\r\nhost: agent\r\nconnection: upgrade\r\nupgrade: ${RUNS_UPGRADE}\r\n\r\n`;
  return `${head}${JSON.stringify(run)}\n`;
}
