import { LOG_LEVEL_META_KEY, type LoggingLevel, type ServerContext } from '@modelcontextprotocol/server';

const LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];
/** Most characters of one message, and of all messages of a call. The result has the output, too. */
const MESSAGE_LENGTH = 8192;
const CALL_LENGTH = 1024 * 1024;

/** Content of a message. Texts of a sandbox may be hostile. */
export interface LogEntry {
  readonly event: 'started' | 'sandbox' | 'stdout' | 'stderr' | 'ended' | 'failed';
  readonly text?: string;
  readonly durationMs?: number;
}

/** The messages of one call, for a client that asks for them. */
export class CallLog {
  readonly #send: (level: LoggingLevel, entry: LogEntry) => void;
  readonly #least: number;
  #left = CALL_LENGTH;

  /** @param least the least severe messages to send; undefined: none */
  constructor(least: LoggingLevel | undefined, send: (level: LoggingLevel, entry: LogEntry) => void) {
    this.#send = send;
    this.#least = least === undefined ? Number.POSITIVE_INFINITY : LEVELS.indexOf(least);
  }

  add(level: LoggingLevel, { text, ...entry }: LogEntry): void {
    if (LEVELS.indexOf(level) < this.#least || this.#left <= 0) return;
    const sent = text?.slice(0, Math.min(MESSAGE_LENGTH, this.#left));
    this.#left -= sent?.length ?? 0;
    this.#send(level, sent === undefined ? entry : { ...entry, text: sent });
  }
}

/** @param ofSession the level that an earlier request has set; the newest revision has one in each request */
export function logOf(mcpReq: ServerContext['mcpReq'], tool: string, ofSession: LoggingLevel | undefined): CallLog {
  // Sound: the library has checked the field, which its type leaves out.
  const inRequest = (mcpReq.envelope as { readonly [LOG_LEVEL_META_KEY]?: LoggingLevel } | undefined)?.[
    LOG_LEVEL_META_KEY
  ];
  return new CallLog(inRequest ?? ofSession, (level, entry) => {
    // A host that has gone has aborted the call, too.
    mcpReq.log(level, entry, tool).catch(() => undefined);
  });
}
