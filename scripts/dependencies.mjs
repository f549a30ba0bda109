// Runs in the machine's own Node, before anything is installed: installs the dependencies, including Node 26.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampFile = join(root, 'node_modules', '.cloche-lock-digest');
const node = join(root, 'node_modules', 'node', 'bin', 'node');
/** Written after an installation, by the script `postinstall`. */
const bundle = join(root, 'packages', 'typebox', 'build', 'index.js');

/**
 * Installs missing dependencies, or exits with instructions.
 *
 * @param command the command that the user typed, for the instructions
 */
export function ensureDependencies(command, { needsRoot = true } = {}) {
  if (process.platform !== 'linux') stop('Cloche runs on Linux.', 'Use a Linux machine, or a virtual one.');
  if (needsRoot && process.getuid() !== 0) stop('Cloche has to be started as root.', `Run \`sudo ${command}\`.`);
  const lockDigest = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  if (!dependenciesAreCurrent(lockDigest)) step('npm packages', () => installDependencies(lockDigest));
  if (!nodeRuns()) step('libatomic1', installNodeLibrary);
}

/** Runs a file of the checkout in the installed Node, and exits with its status. */
export function handOver(file, args) {
  // The child ends when this process ends in any way, and gets SIGTERM so that it can drain first.
  const command = ['--pdeathsig', 'TERM', node, join(root, file), ...args];
  const main = spawn('setpriv', command, { stdio: 'inherit', cwd: root });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => main.kill(signal));
  main.on('exit', (status) => process.exit(status ?? 1));
}

function dependenciesAreCurrent(lockDigest) {
  const installed = [node, bundle, stampFile].every((file) => existsSync(file));
  return installed && readFileSync(stampFile, 'utf8') === lockDigest;
}

function installDependencies(lockDigest) {
  const installed = run('npm', ['ci', '--no-audit', '--no-fund']);
  if (installed.ok) writeFileSync(stampFile, lockDigest);
  return installed;
}

function nodeRuns() {
  return run(node, ['--version']).ok;
}

/** Installs a library that official builds of Node need and a minimal Debian lacks. */
function installNodeLibrary() {
  const install = () => run('apt-get', ['install', '--yes', '--no-install-recommends', 'libatomic1']);
  const first = install();
  return first.ok || !run('apt-get', ['update']).ok ? first : install();
}

function run(file, args) {
  const { status, stdout, stderr, error } = spawnSync(file, args, { cwd: root, encoding: 'utf8' });
  return { ok: status === 0, output: error ? error.message : `${stdout}${stderr}` };
}

function step(title, work) {
  const startedAt = Date.now();
  const { ok, output } = work();
  console.log(`${ok ? '✔' : '✖'} ${title}  ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
  if (ok) return;
  console.error(
    output
      .trimEnd()
      .split('\n')
      .slice(-30)
      .map((line) => `  │ ${line}`)
      .join('\n'),
  );
  stop(`${title} could not be installed.`, 'See that this machine reaches its package registries, then start again.');
}

function stop(problem, remedy) {
  console.error(`${problem}\n${remedy}`);
  process.exit(1);
}
