import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { SLOWNESS } from './eventually.ts';

/**
 * Program that runs a command in a new terminal, as a shell does: copies what the terminal shows to its standard
 * output, reads keys, sizes and the end of the window as lines of JSON, and finally writes the exit code of the command
 * to descriptor 3. With the option `closed`, the standard output of the command is a pipe without a reader.
 */
const HOLDER = `
import fcntl, json, os, pty, select, signal, struct, sys, termios, time
options = json.loads(sys.argv[1])
command = sys.argv[2:]
def resize(fd, rows, cols): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
pid, fd = pty.fork()
if pid == 0:
    resize(0, *options["size"])
    before = termios.tcgetattr(0)
    terminal = os.dup(0)
    os.set_inheritable(3, False)
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        os.execvp(command[0], command)
    def hang_up(*_):
        time.sleep(options["signalDelayMs"] / 1000)
        try: os.kill(child, signal.SIGHUP)
        except ProcessLookupError: pass
    signal.signal(signal.SIGHUP, hang_up)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
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
            elif "size" in line: resize(fd, *line["size"])
            else: isOpen = False
        if not more: break
os.close(fd)
os.waitpid(pid, 0)`;

export interface TerminalOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Default: the folder of this process. */
  readonly cwd?: string;
  readonly rows?: number;
  readonly cols?: number;
  /** Whether the terminal is the standard input. Otherwise, that is /dev/null. */
  readonly hasInput?: boolean;
  /** Whether the reader of the standard output is gone. */
  readonly hasClosedOutput?: boolean;
  /** Time from the end of the window to the signal that tells the command of it. */
  readonly signalDelayMs?: number;
}

export interface TerminalEnd {
  /** Exit code as a shell reports it: 128 plus the signal's number for a process that a signal ended. */
  readonly exitCode: number;
  /** Whether the settings of the terminal are those before the command; null if the window was closed. */
  readonly hasSameSettings: boolean | null;
  /** All output of the command to the terminal. */
  readonly text: string;
}

/** A program in a terminal of its own. */
export class TerminalProcess {
  text = '';
  /** Resolves when the program has ended. */
  readonly ended: Promise<TerminalEnd>;
  readonly #holder;

  constructor(command: readonly string[], { env, cwd, rows = 24, cols = 100, ...given }: TerminalOptions) {
    const { hasInput = true, hasClosedOutput = false, signalDelayMs = 0 } = given;
    const options = { size: [rows, cols], input: hasInput, closed: hasClosedOutput, signalDelayMs };
    this.#holder = spawn('python3', ['-c', HOLDER, JSON.stringify(options), ...command], {
      cwd,
      env: { TERM: 'xterm-256color', ...env },
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
    });
    this.#holder.stdin?.on('error', () => undefined);
    this.ended = this.#end();
  }

  /** Resolves when the terminal shows this. */
  async shows(shown: string | RegExp, withinMs = 60_000): Promise<void> {
    const isShown = () => (typeof shown === 'string' ? this.text.includes(shown) : shown.test(this.text));
    const signal = AbortSignal.timeout(withinMs * SLOWNESS);
    try {
      while (!isShown()) await once(this.#holder.stdout as NodeJS.ReadableStream, 'data', { signal });
    } catch (cause) {
      throw new Error(`does not show ${shown} but ${JSON.stringify(this.text)}`, { cause });
    }
  }

  type(keys: string): void {
    this.#send({ type: keys });
  }

  resize(rows: number, cols: number): void {
    this.#send({ size: [rows, cols] });
  }

  /** Closes the window. */
  hangUp(): void {
    this.#send({ hangUp: true });
  }

  /** Closes the window and waits for the end of the program. */
  async close(): Promise<void> {
    this.hangUp();
    await this.ended;
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
