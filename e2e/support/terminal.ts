import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { eventually } from '@cloche/testkit/eventually';

/**
 * Program that holds the other end of a terminal: reads input and sizes as lines of JSON, and copies the output to its
 * own.
 */
const HOLDER = `
import fcntl, json, os, pty, select, struct, sys, termios
def resize(fd, rows, cols): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
rows, cols, *command = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    resize(0, int(rows), int(cols))
    os.execvp(command[0], command)
asked = b""
while True:
    ready, _, _ = select.select([fd, 0], [], [])
    if fd in ready:
        try: written = os.read(fd, 65536)
        except OSError: break
        if not written: break
        os.write(1, written)
    if 0 in ready:
        more = os.read(0, 65536)
        if not more: break
        *lines, asked = (asked + more).split(b"\\n")
        for line in map(json.loads, lines):
            if "type" in line: os.write(fd, line["type"].encode())
            else: resize(fd, *line["size"])
os.close(fd)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`;

interface TerminalOptions {
  readonly rows: number;
  readonly cols: number;
  readonly env: Readonly<Record<string, string>>;
}

/** Program in a real terminal, with all of its output. */
export class Terminal {
  text = '';
  readonly #holder: ChildProcess;

  constructor(command: readonly string[], { rows, cols, env }: TerminalOptions) {
    this.#holder = spawn('python3', ['-c', HOLDER, `${rows}`, `${cols}`, ...command], {
      env: { ...process.env, TERM: 'xterm-256color', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#holder.stdout?.setEncoding('utf8').on('data', (part: string) => {
      this.text += part;
    });
  }

  type(text: string): void {
    this.#holder.stdin?.write(`${JSON.stringify({ type: text })}\n`);
  }

  resize(rows: number, cols: number): void {
    this.#holder.stdin?.write(`${JSON.stringify({ size: [rows, cols] })}\n`);
  }

  async shows(text: string | RegExp, withinMs = 60_000): Promise<void> {
    const isShown = () => (typeof text === 'string' ? this.text.includes(text) : text.test(this.text));
    await eventually(isShown, { within: withinMs }).catch(() => {
      throw new Error(`does not show ${text} but ${JSON.stringify(this.text)}`);
    });
  }

  /** Hangs up, as closing the window does, unless the program has ended. */
  async close(): Promise<void> {
    if (this.#holder.exitCode !== null) return;
    this.#holder.stdin?.end();
    await once(this.#holder, 'exit');
  }
}
