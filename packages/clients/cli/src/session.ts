import { type ClientOptions, Cloche, DEFAULT_URL } from '@cloche/sdk';
import { UsageError } from './cli-error.ts';
import { type ClientFile, readClientFile, type SavedService } from './client-file.ts';
import { jsonLine, jsonShown, printable } from './terminal/printable.ts';
import type { Output, Terminal } from './terminal/terminal.ts';
import type { UsageCommand } from './usage-command.ts';

/** Options of every command. */
export interface CommonOptions {
  json?: boolean;
  /** Name of a saved service. */
  service?: string;
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
  /** Version of this client. */
  readonly version: string;
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
    this.version = command.rootVersion;
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

  /** Address and key that were passed as flags. */
  get given(): Pick<CommonOptions, 'url' | 'apiKey'> {
    return this.#options;
  }

  /** Returns the address of the service and the API key, which is empty if none is known. */
  async settings(): Promise<{ url: string; apiKey: string }> {
    return serviceSettings(this.#options);
  }

  /** Returns the address and the API key without those of the client file. */
  settingsWithoutSaved(): { url: string; apiKey: string } {
    const { CLOCHE_URL, CLOCHE_API_KEY } = process.env;
    const { url = CLOCHE_URL || DEFAULT_URL, apiKey = CLOCHE_API_KEY || '' } = this.#options;
    return { url, apiKey };
  }

  /**
   * Prints the result as one JSON value, indented on a terminal, or as text for people, in which `forPeople` must make a sandbox's text
   * `printable`.
   */
  async show(value: unknown, forPeople: () => string): Promise<void> {
    const { out } = this.terminal;
    const json = () => (out.isTerminal ? jsonShown(value, out.colors) : jsonLine(value));
    await out.line(this.json ? json() : forPeople());
  }

  /** Prints a line about the result for people; prints nothing when the output is JSON. */
  async note(text: string): Promise<void> {
    if (!this.json) await this.terminal.err.line(this.terminal.err.colors.dim(printable(text)));
  }
}

/** Returns the address of the service and the API key: of those given, the environment, the client file or the defaults. */
export async function serviceSettings(
  given: Pick<CommonOptions, 'service' | 'url' | 'apiKey'>,
): Promise<{ url: string; apiKey: string }> {
  const { CLOCHE_SERVICE, CLOCHE_URL, CLOCHE_API_KEY } = process.env;
  const file = await readClientFile();
  const name = given.service ?? CLOCHE_SERVICE;
  const saved = name ? namedService(file, name) : file;
  // A name on the command line means that service, whatever the environment has.
  const [urlSet, keySet] = given.service === undefined ? [CLOCHE_URL, CLOCHE_API_KEY] : [];
  return {
    url: given.url ?? (urlSet || saved.url || DEFAULT_URL),
    apiKey: given.apiKey ?? (keySet || saved.apiKey || ''),
  };
}

/** @throws {UsageError} if no service is saved under this name */
function namedService({ services }: ClientFile, name: string): SavedService {
  if (Object.hasOwn(services, name)) return services[name] ?? {};
  const others = Object.keys(services);
  const known = others.length === 0 ? `\`cloche login --name ${name}\` saves one` : `use ${others.join(' or ')}`;
  throw new UsageError(`No service is saved as "${name}"; ${known}.`);
}
