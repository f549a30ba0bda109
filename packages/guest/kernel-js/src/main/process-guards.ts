import { inspect } from 'node:util';
import { Control, type FromMain } from '../messages.ts';
import { DescriptorStream } from './descriptor-stream.ts';
import { InterruptedError, type Runs } from './runs.ts';

/** Thrown by `process.exit` outside a run, for example in a timer of an earlier cell. */
class ExitError extends Error {
  override readonly name = 'ExitError';
}

/** Replaces the standard streams. Output is complete when a run is over. Output of stopped runs is dropped. */
export function replaceStandardStreams(runs: Runs): void {
  const isMuted = () => runs.isInStoppedRun();
  defineOnProcess('stdout', new DescriptorStream(1, isMuted));
  defineOnProcess('stderr', new DescriptorStream(2, isMuted));
}

/** Reports uncaught errors in callbacks and promises on standard error. The kernel goes on. */
export function surviveUncaughtErrors(): void {
  process.setUncaughtExceptionCaptureCallback((error) => {
    if (error instanceof InterruptedError) return;
    if (process.listenerCount('uncaughtException') > 0) process.emit('uncaughtException', error, 'uncaughtException');
    else process.stderr.write(`Uncaught ${inspect(error)}\n`);
  });
}

/** Makes `process.exit` end the run, uncatchably, but not the kernel. */
export function confineExit(runs: Runs, control: Int32Array, post: (message: FromMain) => void): void {
  const exit = (code?: number | string | null): never => {
    const exitCode = Number(code ?? process.exitCode ?? 0);
    const run = runs.current();
    if (!run) throw new ExitError(`process.exit(${exitCode}) was called outside a run`);
    post({ type: 'exit', number: run.number, exitCode });
    // Waits until the worker terminates the execution.
    for (;;) Atomics.wait(control, Control.never, 0);
  };
  defineOnProcess('exit', exit);
  defineOnProcess('reallyExit', exit);
}

function defineOnProcess(name: string, value: unknown): void {
  Object.defineProperty(process, name, { value, writable: true, configurable: true, enumerable: true });
}
