import { endBy, hangUp, InterruptedError, isHangUp } from './interruption.ts';
import { buildProgram } from './program.ts';
import { reportError } from './report-error.ts';
import { processTerminal } from './terminal/terminal.ts';
import { VERSION } from './version.ts';

const args = process.argv.slice(2);
const terminal = processTerminal();
// A closed pipe (`| head`) is not an error to report; a running command handles it itself.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (isHangUp(error, stream)) hangUp();
    else if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
  });

// What a program of a sandbox left coloured would colour the next prompt.
process.once('exit', () => {
  for (const output of [terminal.out, terminal.err]) output.endProgram().catch(() => undefined);
});

if (args[0] === 'completion' && args[1] === '--words') {
  // Asked by the shell. Not an option of the command, because the words are options of others.
  const { completionsOf } = await import('./completion.ts');
  for (const { word, is } of await completionsOf(args.slice(2), terminal)) await terminal.out.line(`${word}\t${is}`);
} else {
  try {
    const program = await buildProgram(VERSION, args, terminal);
    // Without a command, the help is what was asked for.
    await program.parseAsync(args.length === 0 ? ['--help'] : args, { from: 'user' });
  } catch (error) {
    process.exitCode = await reportError(error, args.includes('--json'), terminal);
    if (error instanceof InterruptedError) {
      await Promise.all([terminal.out.endProgram(), terminal.err.endProgram()]);
      endBy(error.signal);
    }
  }
}
