/** Runs hostd unchanged, except that a proxy that lies stands before the agent of its sandboxes. */
import { build } from 'esbuild';
import { ANSWER_SCHEMAS } from './answer-schemas.ts';

const program = new URL('../../../../packages/host/hostd/testing/hostd-with-command.ts', import.meta.url);
const { outputFiles } = await build({
  entryPoints: [new URL('./lying-proxy.ts', import.meta.url).pathname],
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  platform: 'node',
  target: 'node26',
  define: { ANSWERS: JSON.stringify(ANSWER_SCHEMAS) },
  logLevel: 'warning',
});
const proxy = outputFiles[0]?.text ?? '';
process.argv = [process.execPath, program.pathname, '/opt/cloche/bin/node', '--input-type=module', '--eval', proxy];
await import(program.href);
