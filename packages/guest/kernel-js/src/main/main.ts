/**
 * The kernel's entry point: `node <kernelJsFlags> main.cjs javascript|typescript`. Descriptor 3 is the agent's socket,
 * standard input is empty, and the working directory is the context's. This thread runs cells. Its only link to the
 * protocol is a port to the worker, held in a closure.
 *
 * Cells may use all of TypeScript, and decorators in either language: standard ones, or those of
 * `experimentalDecorators` in a cell that decorates parameters. Node itself loads the files that cells import:
 * - A file is loaded once in a context. Importing it again after a change returns the first version, unless the
 *   specifier differs, for example by a query (`./file.mjs?2`).
 * - A TypeScript file may have what a cell may have (`typescript-files.ts`).
 */
import { writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { MessageChannel, SHARE_ENV, Worker } from 'node:worker_threads';
import { CONTROL_BYTES, type FromMain, type Language, type ToMain, type WorkerSetup } from '../messages.ts';
import { CellRunner } from './cell-runner.ts';
import { createCellSupport } from './cell-support.ts';
import { createDisplay } from './display.ts';
import { findGlobalPackages } from './global-packages.ts';
import { defineGlobals, hideModule } from './globals.ts';
import { LiveValues } from './live-values.ts';
import { confineExit, replaceStandardStreams, surviveUncaughtErrors } from './process-guards.ts';
import { rearmTimers } from './rearm-timers.ts';
import { Runs } from './runs.ts';
import { StackTraces } from './stack-traces.ts';
import { loadTypeScriptFiles } from './typescript-files.ts';

function start(language: Language): void {
  // Started by a loader of the guest folder, which runs no script: what cells start by this path is the image's Node.
  if (basename(process.execPath) === 'ld.so') process.execPath = 'node';
  const sharedControl = new SharedArrayBuffer(CONTROL_BYTES);
  const control = new Int32Array(sharedControl);
  const { port1: port, port2: workerPort } = new MessageChannel();
  const post = (message: FromMain) => port.postMessage(message);

  const setup: WorkerSetup = { language, port: workerPort, control: sharedControl };
  const worker = new Worker(join(import.meta.dirname, 'worker.cjs'), {
    workerData: setup,
    transferList: [workerPort],
    env: SHARE_ENV,
  });
  // Without the worker the kernel cannot communicate. Its end tells the agent.
  worker.once('error', (error) => {
    writeSync(2, `The kernel failed: ${error instanceof Error ? error.stack : error}\n`);
    process.kill(process.pid, 'SIGKILL');
  });

  const runs = new Runs(control);
  const stackTraces = new StackTraces(import.meta.filename);
  const runner = new CellRunner({ runs, support: createCellSupport(runs), stackTraces, control, post });
  const values = new LiveValues(runner.declared);
  port.on('message', (message: ToMain) => {
    if (message.type === 'ping') post({ type: 'pong', sequence: message.sequence });
    else if (message.type === 'recover') rearmTimers();
    else if (message.type === 'look') post({ type: 'seen', seen: values.look(message.look) });
    else runner.run(message.number, message.cell);
  });

  replaceStandardStreams(runs);
  surviveUncaughtErrors();
  confineExit(runs, control, post);
  hideModule(import.meta.filename);
  defineGlobals(createDisplay((forms) => runner.show('display', forms)));
  stackTraces.install();
  findGlobalPackages(process.env.NODE_PATH ?? '');
  loadTypeScriptFiles((path, sourceMap) => stackTraces.rememberFile(path, sourceMap));
  post({ type: 'ready' });
}

const language = process.argv[2];
if (language !== 'javascript' && language !== 'typescript') throw new Error('Usage: main.cjs javascript|typescript');
process.argv.length = 1;
start(language);
