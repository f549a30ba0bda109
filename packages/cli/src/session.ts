import { type ClientOptions, Cloche, DEFAULT_URL } from '@cloche/sdk';
import { readClientFile } from './client-file.ts';
import { jsonLine, printable } from './terminal/printable.ts';
import type { Output, Terminal } from './terminal/terminal.ts';
import type { UsageCommand } from './usage-command.ts';

/** Options of every command. */
export interface CommonOptions {
  json?: boolean;
  url?: string;
  apiKey?: string;
  /** For commands that list: `wide` shows all columns, `quiet` shows ids only. */
  wide?: boolean;
  quiet?: boolean;
  /** For commands that print output of programs: also on a terminal exactly as it is. */
  raw?: boolean;
}

/** Context of one command: its terminal, its output format and the service. */
export class Session {
  readonly terminal: Terminal;
  readonly json: boolean;
  /** Whether a list prints ids alone. */
  readonly quiet: boolean;
  readonly #options: CommonOptions;

  constructor(command: UsageCommand) {
    this.#options = command.optsWithGlobals<CommonOptions>();
    const { wide, raw } = this.#options;
    const as = (output: Output, isWide = false): Output =>
      Object.create(output, {
        ...(isWide && { columns: { value: Number.POSITIVE_INFINITY } }),
        ...(raw && { program: { value: output.write }, programLine: { value: output.line } }),
      });
    const { out, err } = command.terminal;
    this.terminal = { out: as(out, wide), err: as(err) };
    this.json = this.#options.json ?? false;
    this.quiet = this.#options.quiet ?? false;
  }

  /**
   * Connects to the service. Settings come from flags, then the environment, then the client file, then defaults.
   * @throws {ClocheError} `missing_api_key`
   */
  async connect(options: Pick<ClientOptions, 'webSocket'> = {}): Promise<Cloche> {
    return new Cloche({ ...(await this.settings()), ...options });
  }

  /** The key that was passed as a flag. */
  get givenKey(): string | undefined {
    return this.#options.apiKey;
  }

  /** Returns the address of the service and the API key, which is empty if none is known. */
  async settings(): Promise<{ url: string; apiKey: string }> {
    return serviceSettings(this.#options);
  }

  /**
   * Prints the result as one JSON value, or as text for people, in which `forPeople` must make a sandbox's text
   * `printable`.
   */
  async show(value: unknown, forPeople: () => string): Promise<void> {
    await this.terminal.out.line(this.json ? jsonLine(value) : forPeople());
  }

  /** Prints a line about the result for people; prints nothing when the output is JSON. */
  async note(text: string): Promise<void> {
    if (!this.json) await this.terminal.err.line(this.terminal.err.colors.dim(printable(text)));
  }
}

/** Returns the address of the service and the API key: of those given, the environment, the client file or the defaults. */
export async function serviceSettings(
  given: Pick<CommonOptions, 'url' | 'apiKey'>,
): Promise<{ url: string; apiKey: string }> {
  const { CLOCHE_URL, CLOCHE_API_KEY } = process.env;
  const file = await readClientFile();
  return {
    url: given.url ?? (CLOCHE_URL || file.url || DEFAULT_URL),
    apiKey: given.apiKey ?? (CLOCHE_API_KEY || file.apiKey || ''),
  };
}
