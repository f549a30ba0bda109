import { chown, lstat, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { type LoggedCommand, runLogged } from '../run-logged.ts';
import { together } from '../together.ts';
import { readAptConfiguration } from './apt-configuration.ts';
import { contained } from './contained-command.ts';
import { LOGIN_FILES } from './login-files.ts';
import type { Recipe } from './recipe.ts';
import { CA_BUNDLE, templateEnvironment } from './template-environment.ts';

/** The account that kernels run as. */
const USER_ID = 1000;

/** Documentation is for people at a terminal of their own; licences stay. */
const UNPACKED = [
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/info/*',
  'path-exclude=/usr/share/locale/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
];

/** Makes the recipe's root file system in the folder `root`, which must not exist. */
export async function makeRootFileSystem(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  const [node] = await together([fetchNode(root, recipe, options), bootstrap(root, recipe, options)]);
  await addAccount(root, recipe, options);
  await installNpmPackages(root, recipe, options, node);
  await installPipPackages(root, recipe, options);
  for (const command of recipe.setup) await runInside(root, recipe, command, options);
  await trim(root);
}

async function bootstrap(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  const release = recipe.from.slice('debian:'.length);
  const apt = await readAptConfiguration(release);
  const command = [
    'mmdebstrap',
    '--mode=root',
    '--format=directory',
    '--variant=minbase',
    ...(recipe.packages.apt.length > 0 ? [`--include=${recipe.packages.apt.join(',')}`] : []),
    ...apt.options.map((option) => `--aptopt=${option}`),
    ...UNPACKED.map((option) => `--dpkgopt=${option}`),
    release,
    root,
    ...apt.sources,
  ];
  await runLogged(...contained(command), options);
}

async function addAccount(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  await runLogged(
    'chroot',
    [root, 'useradd', '--uid', `${USER_ID}`, '--user-group', '--create-home', '--shell', '/bin/bash', 'user'],
    options,
  );
  await mkdir(join(root, 'workspace'));
  await chown(join(root, 'workspace'), USER_ID, USER_ID);
  await mkdir(join(root, 'opt', 'cloche'), { recursive: true });
  // Mount points: each sandbox gets its own in their place.
  for (const name of ['resolv.conf', 'hosts', 'hostname']) {
    await rm(join(root, 'etc', name), { force: true });
    await writeFile(join(root, 'etc', name), '');
  }
  const lines = Object.entries(templateEnvironment(recipe)).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(join(root, 'etc', 'environment'), lines.join(''));
  // Over what is there, so that owners stay.
  for (const [path, text] of Object.entries(LOGIN_FILES)) await writeFile(join(root, path), text);
}

const NPM_OPTIONS = ['--no-audit', '--no-fund', '--no-update-notifier'];

/** npm is this machine's, under the Node that runs us, so that its configuration decides. */
function ofHost<Options extends LoggedCommand>(options: Options): Options {
  return { ...options, env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` } };
}

/** The program of the recipe's Node, in a folder beside `root`, with a log of its own; undefined where it has none. */
async function fetchNode(root: string, recipe: Recipe, { logFile }: LoggedCommand): Promise<string | undefined> {
  const name = recipe.packages.npm.find(isNode);
  if (!name) return undefined;
  // Its install script takes a project for granted.
  const project = join(dirname(root), 'node');
  await mkdir(project, { recursive: true });
  const manifest = { private: true, dependencies: { node: name.slice(NODE.length) }, allowScripts: { node: true } };
  await writeFile(join(project, 'package.json'), JSON.stringify(manifest));
  const options = ofHost({ logFile: logFile.replace(/(\.log)?$/, '-node.log'), cwd: project });
  await runLogged('npm', ['install', ...NPM_OPTIONS, '--prefix', project], options);
  return join(project, 'node_modules', 'node', 'bin', 'node');
}

const NODE = 'node@';
const isNode = (name: string) => name.startsWith(NODE);

async function installNpmPackages(root: string, recipe: Recipe, options: LoggedCommand, node?: string): Promise<void> {
  const prefix = join(root, 'usr', 'local');
  if (node) {
    await rename(node, join(prefix, 'bin', 'node'));
    await chown(join(prefix, 'bin', 'node'), 0, 0);
    await rm(join(dirname(root), 'node'), { recursive: true });
  }
  const others = recipe.packages.npm.filter((name) => !isNode(name));
  if (others.length > 0)
    await runLogged('npm', ['install', '--global', ...NPM_OPTIONS, '--prefix', prefix, ...others], ofHost(options));
}

async function installPipPackages(root: string, recipe: Recipe, options: LoggedCommand): Promise<void> {
  // Marks a Python that apt alone may install into. A sandbox's Python is its user's.
  const libraries = await readdir(join(root, 'usr', 'lib'));
  for (const name of libraries.filter((name) => name.startsWith('python3'))) {
    await rm(join(root, 'usr', 'lib', name, 'EXTERNALLY-MANAGED'), { force: true });
  }
  if (recipe.packages.pip.length === 0) return;
  const run = `python3 -m pip install --no-cache-dir --root-user-action=ignore ${recipe.packages.pip.join(' ')}`;
  await runInside(root, recipe, { as: 'root', run }, options);
}

/** Mounts what a command needs in our namespace, then runs it in the root file system. `$1` is that, `$2` our home. */
const ENTER = `
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs tmpfs "$1/root"
mount --bind "$(realpath /etc/resolv.conf)" "$1/etc/resolv.conf"
if [ -s ${CA_BUNDLE} ]; then mount --bind ${CA_BUNDLE} "$1${CA_BUNDLE}"; fi
if [ -d "$2/.config/pip" ]; then mkdir "$1/root/.config"; cp -r "$2/.config/pip" "$1/root/.config/pip"; fi
if [ -d "$2/.pip" ]; then cp -r "$2/.pip" "$1/root/.pip"; fi
for file in "\${PIP_CONFIG_FILE:-}" /etc/pip.conf /etc/xdg/pip/pip.conf; do
  if [ -f "$file" ]; then cp "$file" "$1/root/pip.conf"; break; fi
done
export PIP_CONFIG_FILE=/root/pip.conf
root=$1
shift 2
exec chroot "$root" "$@"
`;

/** One command in the root file system, with this machine's resolver, certificates and pip configuration. */
async function runInside(
  root: string,
  recipe: Recipe,
  command: Recipe['setup'][number],
  options: LoggedCommand,
): Promise<void> {
  const home = command.as === 'root' ? '/root' : '/home/user';
  const account =
    command.as === 'root'
      ? []
      : ['setpriv', `--reuid=${USER_ID}`, `--regid=${USER_ID}`, '--clear-groups', '--no-new-privs'];
  const ofHost = Object.entries(process.env).filter(([name]) => /^(PIP_\w+|\w+_proxy)$/i.test(name));
  const env = { ...Object.fromEntries(ofHost), ...templateEnvironment(recipe), HOME: home };
  const inside = [...account, 'sh', '-euc', `cd ${home}; ${command.run}`];
  await runLogged(...contained(['sh', '-euc', ENTER, 'enter', root, homedir(), ...inside]), { ...options, env });
}

/** Removes what only building needed. */
async function trim(root: string): Promise<void> {
  for (const path of [
    'var/cache/apt',
    'var/lib/apt/lists',
    'var/log',
    'tmp',
    'root/.npm',
    'usr/share/doc-base',
    'dev',
  ]) {
    const folder = join(root, path);
    const entries = await readdir(folder).catch(() => []);
    for (const entry of entries) {
      const inner = join(folder, entry);
      // apt wants its folders back, empty.
      if ((await lstat(inner)).isDirectory() && entry === 'partial') continue;
      await rm(inner, { recursive: true, force: true });
    }
  }
}
