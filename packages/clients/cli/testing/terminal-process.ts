import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

/**
 * Program that runs a command in a new terminal, as a shell does: copies what the terminal shows to its standard
 * output, reads `type …` and `hang-up` as lines of JSON, and finally writes the exit code of the command to descriptor
 * 3. With the option `closed`, the standard output of the command is a pipe without a reader.
 */
const HOLDER = `
import fcntl, json, os, pty, select, signal, struct, sys, termios
options = json.loads(sys.argv[1])
command = sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    before = termios.tcgetattr(0)
    terminal = os.dup(0)
    os.set_inheritable(3, False)
    signal.signal(signal.SIGINT, lambda *_: None)
    child = os.fork()
    if child == 0:
        if not options["input"]: os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        if options["closed"]:
            read, write = os.pipe()
            os.close(read)
            os.dup2(write, 1)
        os.close(terminal)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(command[0], command)
    signal.signal(signal.SIGHUP, lambda *_: os.kill(child, signal.SIGHUP))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try: same = termios.tcgetattr(terminal) == before
    except termios.error: same = None
    os.write(3, json.dumps({"exitCode": 128 - status if status < 0 else status, "hasSameSettings": same}).encode())
    os._exit(0)
os.close(3)
asked = b""
isOpen = True
while isOpen:
    ready, _, _ = select.select([fd, 0], [], [])
    if fd in ready:
        try: written = os.read(fd, 65536)
        except OSError: break
        if not written: break
        os.write(1, written)
    if 0 in ready:
        more = os.read(0, 65536)
        *lines, asked = (asked + more).split(b"\\n")
        for line in map(json.loads, lines):
            if "type" in line: os.write(fd, line["type"].encode())
            else: isOpen = False
        if not more: break
os.close(fd)
os.waitpid(pid, 0)`;

export interface TerminalOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Whether the terminal is the standard input. Otherwise, that is /dev/null. */
  readonly hasInput?: boolean;
  /** Whether the reader of the standard output is gone. */
  readonly hasClosedOutput?: boolean;
}

export interface TerminalEnd {
  /** Exit code as a shell reports it: 128 plus the signal's number for a process that a signal ended. */
  readonly exitCode: number;
  /** Whether the settings of the terminal are those before the command; null if the window was closed. */
  readonly hasSameSettings: boolean | null;
  /** All output of the command to the terminal. */
  readonly text: string;
}

/** A program in a terminal of its own, of 100 columns. */
export class TerminalProcess {
  text = '';
  /** Resolves when the program has ended. */
  readonly ended: Promise<TerminalEnd>;
  readonly #holder;

  constructor(command: readonly string[], { env, cwd, hasInput = true, hasClosedOutput = false }: TerminalOptions) {
    const options = JSON.stringify({ input: hasInput, closed: hasClosedOutput });
    this.#holder = spawn('python3', ['-c', HOLDER, options, ...command], {
      cwd,
      env: { TERM: 'xterm-256color', ...env },
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
    });
    this.#holder.stdin?.on('error', () => undefined);
    this.ended = this.#end();
  }

  /** Resolves when the terminal shows this; never for a program that ends before. */
  shows(shown: RegExp): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#holder.stdout?.on('data', () => {
      if (shown.test(this.text)) resolve();
    });
    return promise;
  }

  type(keys: string): void {
    this.#send({ type: keys });
  }

  /** Closes the window. */
  hangUp(): void {
    this.#send({ hangUp: true });
  }

  #send(message: object): void {
    this.#holder.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  async #end(): Promise<TerminalEnd> {
    const [, stdout, , report] = this.#holder.stdio;
    stdout?.setEncoding('utf8').on('data', (part: string) => {
      this.text += part;
    });
    const closed = once(this.#holder, 'close');
    const end = JSON.parse(await text(report as NodeJS.ReadableStream));
    await closed;
    return { ...end, text: this.text };
  }
}
