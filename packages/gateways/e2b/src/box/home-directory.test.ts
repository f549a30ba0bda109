import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import type { BoxSession } from './box-session.ts';
import { HomeDirectory, moveOnce } from './home-directory.ts';

/** A kernel that executes one piece of code after another, and the directory it is in. */
interface TestKernel {
  run(code: string): void;
  directory(): string;
  /** What the kernel would show as the value of the last run. */
  shown(): unknown;
}

/** Only `chdir` is not real, because the directories do not exist here. */
class PythonKernel implements TestKernel {
  readonly #codes: string[] = [];

  run(code: string): void {
    this.#codes.push(code);
  }

  directory(): string {
    return this.#execute()[0] ?? '';
  }

  shown(): unknown {
    return this.#execute()[1];
  }

  #execute(): string[] {
    const program = `
import json, os, sys
at = ["/workspace"]
os.chdir = at.append
shown = [eval(code) for code in json.load(sys.stdin)]
print(json.dumps([at[-1], shown[-1]]))`;
    const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: JSON.stringify(this.#codes) });
    assert.equal(String(stderr), '');
    return JSON.parse(String(stdout));
  }
}

class JavaScriptKernel implements TestKernel {
  #directory = '/workspace';
  #shown: unknown;
  readonly #process = {
    chdir: (directory: string) => {
      this.#directory = directory;
    },
  };

  run(code: string): void {
    this.#shown = new Function('process', `return (${code});`)(this.#process);
  }

  directory(): string {
    return this.#directory;
  }

  shown(): unknown {
    return this.#shown;
  }
}

const KERNELS = {
  python: () => new PythonKernel(),
  javascript: () => new JavaScriptKernel(),
  typescript: () => new JavaScriptKernel(),
} as const;

/** Returns a session whose runs the kernel executes, and counts them. */
function sessionOf(kernel: TestKernel) {
  const runs: string[] = [];
  const cloche = {
    call: async (_operation: string, { body }: { body: { code: string } }) => {
      runs.push(body.code);
      kernel.run(body.code);
      return { run: {} };
    },
  };
  // Sound: nothing else of a session is used.
  return { session: { cloche, sandboxId: 'sbx_1' } as unknown as BoxSession, runs };
}

for (const [language, open] of Object.entries(KERNELS)) {
  const target = { language: language as keyof typeof KERNELS };
  const leave = language === 'python' ? '__import__("os").chdir("/data")' : 'process.chdir("/data")';

  describe(`the default context of ${language}`, () => {
    it('begins in the home of the user, and shows nothing for it', async () => {
      const kernel = open();
      await new HomeDirectory().moveDefault(sessionOf(kernel).session, target.language);
      assert.equal(kernel.directory(), '/home/user');
      assert.equal(kernel.shown() ?? undefined, undefined);
    });

    it(`the default context of ${language} keeps the directory that the client has entered, also when another server moves it`, async () => {
      const kernel = open();
      const { session } = sessionOf(kernel);
      const [first, second] = [new HomeDirectory(), new HomeDirectory()];
      await first.moveDefault(session, target.language);
      kernel.run(leave);
      await second.moveDefault(session, target.language);
      assert.equal(kernel.directory(), '/data');
      assert.equal(kernel.shown() ?? undefined, undefined);
    });

    it(`the default context of ${language} keeps the directory after a restart by the client, also when another server moves it`, async () => {
      const kernel = open();
      const { session } = sessionOf(kernel);
      await moveOnce(session, { ...target, contextId: 'cctx_1' }, '/home/user');
      kernel.run(leave);
      await new HomeDirectory().moveDefault(session, target.language);
      assert.equal(kernel.directory(), '/data');
    });

    it(`the default context of ${language} is moved once by a server`, async () => {
      const { session, runs } = sessionOf(open());
      const home = new HomeDirectory();
      await home.moveDefault(session, target.language);
      await home.moveDefault(session, target.language);
      assert.equal(runs.length, 1);
    });
  });
}

describe('a context that cannot be moved', () => {
  for (const [name, status] of Object.entries({
    KernelDiedError: 503,
    OutOfMemoryError: 503,
    FileNotFoundError: 400,
  })) {
    it(`a context whose move ends with ${name} is refused with ${status}`, async () => {
      const cloche = { call: async () => ({ run: { error: { name, message: 'It did not work.' } } }) };
      // Sound: a move uses nothing else of a session.
      const session = { cloche, sandboxId: 'sbx_1' } as unknown as BoxSession;
      await assert.rejects(moveOnce(session, { language: 'python' }, '/data'), { status });
    });
  }
});
