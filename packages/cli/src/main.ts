import packageJson from '../package.json' with { type: 'json' };
import { buildProgram } from './program.ts';
import { reportError } from './report-error.ts';
import { processTerminal } from './terminal/terminal.ts';

const args = process.argv.slice(2);
const terminal = processTerminal();
// A closed pipe (`| head`) is not an error to report; a running command handles it itself.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

try {
  const program = await buildProgram(packageJson.version, args, terminal);
  // Without a command, the help is what was asked for.
  await program.parseAsync(args.length === 0 ? ['--help'] : args, { from: 'user' });
} catch (error) {
  process.exitCode = await reportError(error, args.includes('--json'), terminal);
}
