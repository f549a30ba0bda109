import { parseArgs } from 'node:util';
import { createProgress, describeProblem, SetupProblem } from './progress.ts';
import { SettingsProblem } from './settings.ts';
import { start } from './start.ts';

const { positionals } = parseArgs({ allowPositionals: true });
try {
  if (positionals.length !== 1 || positionals[0] !== 'start') {
    throw new SetupProblem(
      `There is no command \`${positionals.join(' ')}\`.`,
      'Run `npm start`; it takes no arguments.',
    );
  }
  await start(process.env, createProgress(process.stdout));
  process.exit(0);
} catch (error) {
  process.stderr.write(`\n${error instanceof SettingsProblem ? error.message : describeProblem(error)}\n`);
  process.exit(1);
}
