// Runs in the machine's own Node, before anything is installed, so it uses nothing that Node 12 does not parse. The
// machine's Node only fetches the Node and npm that Cloche brings; these install the rest.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
// Node 12 cannot import single functions that it does not have.
import fs from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { remedyFor } from '../packages/host/host-checks/starter/download-failure.mjs';
import { refusals, roomOfCache } from '../packages/host/host-checks/starter/machine.mjs';
import {
  findManager,
  installNow,
  isPresent,
  NODE_LIBRARY,
} from '../packages/host/host-checks/starter/system-packages.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampFile = join(root, 'node_modules', '.cloche-lock-digest');
const node = join(root, 'node_modules', '.bin', 'node');
const npm = join(root, 'node_modules', '.bin', 'npm');
/** Written after an installation. */
const bundle = join(root, 'packages/shared/kysely/build/index.js');
/** Where Node and npm are unpacked to install the dependencies. */
const starter = join(root, '.starter');
const STARTERS = ['npm', `node-linux-${process.arch}`];
const CLEAR_LINE = '\r\u001b[2K';
const WAIT = 'once, which takes a minute or two';
const GIB = 1024 ** 3;
/** Bytes of all dependencies, and of Node and npm beside them. */
const DEPENDENCY_BYTES = GIB;

/**
 * Refuses a machine that cannot run Cloche, and installs missing dependencies. Exits with instructions if that fails.
 *
 * @param command the command that the user typed, for the instructions
 */
export function ensureDependencies(command, { needsRoot = true } = {}) {
  const lockDigest = createHash('sha256')
    .update(fs.readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  const isCurrent = dependenciesAreCurrent(lockDigest);
  const ofCache = roomOfCache(process.env.CLOCHE_CACHE_DIR || '/var/cache/cloche');
  const room = needsRoot ? ofCache : [];
  if (!isCurrent) room.push({ folder: root, bytes: DEPENDENCY_BYTES });
  const found = refusals({ command, needsRoot, room, downloads: !isCurrent || ofCache.length > 0 });
  if (found.length > 0) {
    stop(found.map(({ problem, remedy }) => `${problem}\n${remedy}`).join('\n'));
  }
  if (!isPresent(NODE_LIBRARY)) step('library of Node', installNodeLibrary);
  if (!isCurrent) step('npm packages', () => installDependencies(lockDigest));
}

/** Runs a file of the checkout in the installed Node, and exits with its status. */
export function handOver(file, args) {
  // The child ends when this process ends in any way, and gets SIGTERM so that it can drain first.
  const command = ['--pdeathsig', 'TERM', node, join(root, file), ...args];
  const main = spawn('setpriv', command, { stdio: 'inherit', cwd: root });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => main.kill(signal));
  main.on('exit', (status) => process.exit(status === null ? 1 : status));
}

function dependenciesAreCurrent(lockDigest) {
  const installed = [node, npm, bundle, stampFile].every((file) => fs.existsSync(file));
  return installed && fs.readFileSync(stampFile, 'utf8') === lockDigest;
}

/**
 * Installs all dependencies by the Node and npm that the lock file pins, whatever the machine's are: an older npm leaves
 * out packages whose engines do not match its own Node. No package runs a script.
 */
function installDependencies(lockDigest) {
  fs.rmSync(starter, { recursive: true, force: true });
  try {
    fetchStarters();
    const own = join(starter, `node-linux-${process.arch}`, 'bin', 'node');
    // The machine's npm may have a configuration of its own, such as a registry.
    const settings = run('npm', ['config', 'get', 'globalconfig']).trim();
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--globalconfig', settings];
    run(own, [join(starter, 'npm', 'bin', 'npm-cli.js'), 'ci', ...options]);
    run(node, [join(root, 'scripts/build-bundles.mjs')]);
    fs.writeFileSync(stampFile, lockDigest);
  } finally {
    fs.rmSync(starter, { recursive: true, force: true });
  }
}

/** Fetches Node and npm, and unpacks them into folders of their names. */
function fetchStarters() {
  const { packages } = JSON.parse(fs.readFileSync(join(root, 'package-lock.json'), 'utf8'));
  fs.mkdirSync(starter);
  for (const name of STARTERS) {
    const { version, integrity } = packages[`node_modules/${name}`];
    const folder = join(starter, name);
    fs.mkdirSync(folder);
    run('npm', ['pack', '--silent', `${name}@${version}`], folder);
    const [archive] = fs.readdirSync(folder);
    const digest = createHash('sha512')
      .update(fs.readFileSync(join(folder, archive)))
      .digest('base64');
    if (`sha512-${digest}` !== integrity) throw new Error(`${name}@${version} is not what package-lock.json names.`);
    run('tar', ['--extract', '--file', archive, '--strip-components', '1', '--no-same-owner'], folder);
    fs.rmSync(join(folder, archive));
  }
}

/** Installs a library that official builds of Node need and a minimal distribution lacks. */
function installNodeLibrary() {
  const manager = findManager();
  if (!manager) throw new Error(`${NODE_LIBRARY.library} is missing, and no program to install packages was found.`);
  installNow(manager, [NODE_LIBRARY.packages[manager]]);
}

/** Runs a command to its end and returns its output. Throws an error with all that it printed if it fails. */
function run(file, args, cwd = root) {
  const { status, stdout, stderr, error } = spawnSync(file, args, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 });
  if (error) throw error;
  if (status !== 0) throw new Error(`${stdout}${stderr}`.trim() || `\`${file} ${args.join(' ')}\` failed.`);
  return stdout;
}

function step(title, work) {
  const startedAt = Date.now();
  const isTerminal = process.stdout.isTTY;
  if (isTerminal) process.stdout.write(`… ${title}, ${WAIT}`);
  let failure;
  try {
    work();
  } catch (error) {
    failure = `${error.stdout || ''}${error.stderr || ''}` || error.message;
  }
  console.log(
    `${isTerminal ? CLEAR_LINE : ''}${failure ? '✖' : '✔'} ${title}  ${((Date.now() - startedAt) / 1000).toFixed(1)} s`,
  );
  if (!failure) return;
  const lines = failure.trimEnd().split('\n').slice(-30);
  console.error(lines.map((line) => `  │ ${line}`).join('\n'));
  stop(`${title} could not be installed.\n${remedyFor(failure)}`);
}

function stop(text) {
  console.error(text);
  process.exit(1);
}
