import type { LoggingLevel } from '@modelcontextprotocol/server';

/** State of a client that is kept between its calls. */
export interface McpSession {
  /** Tells the session apart from all others. No secret. */
  readonly name: string;
  readonly sandboxId: string | undefined;
  /** The least severe messages that the client wants. Undefined if it wants none. */
  readonly logLevel: LoggingLevel | undefined;
  /**
   * Puts a sandbox in the place of `sandboxId`. Returns the sandbox that the session then has, which is another one if a
   * call at the same time was first. Returns undefined if the session has ended.
   */
  replaceSandbox(sandboxId: string): Promise<string | undefined>;
  setLogLevel(level: LoggingLevel): Promise<void>;
  /** Adds the URI of a resource. Idempotent. Returns false if the session has `most` already. */
  subscribe(uri: string, most: number): Promise<boolean>;
  /** Idempotent. */
  unsubscribe(uri: string): Promise<void>;
  /** Yields the URIs to which the session is subscribed, now and after each change. Ends with the session or `signal`. */
  follow(signal: AbortSignal): AsyncIterable<readonly string[]>;
}

/** The sessions of clients over HTTP. Any server of an installation finds them. */
export interface McpSessions {
  /** Opens a session of a key, and returns its id, which cannot be guessed. */
  open(apiKey: string): Promise<string>;
  /** Returns undefined for an unknown id, for a session that has ended, and for one of another key. */
  find(apiKey: string, sessionId: string): Promise<McpSession | undefined>;
  /** Ends a session. Returns it as it was, or undefined as `find` does. */
  end(apiKey: string, sessionId: string): Promise<Pick<McpSession, 'sandboxId'> | undefined>;
}
