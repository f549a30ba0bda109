/**
 * What the machine must have before anything is downloaded. Runs in the machine's own Node, from version 12 on, so it
 * uses no newer syntax.
 */
import fs from 'node:fs';
import { release } from 'node:os';
import { findV2Mount, NEEDED_CONTROLLERS, readCgroupLayout } from './cgroup-layout.mjs';
import { isNewKernel, OLDEST_KERNEL } from './kernel.mjs';
import { nearestFolder } from './nearest-folder.mjs';
import { findManager, isPresent, SYSTEM_PACKAGES } from './system-packages.mjs';

/** Oldest Node that can fetch the Node that Cloche brings: that of Debian 12 and Ubuntu 24.04. */
const OLDEST_NODE = 18;
const GIB = 1024 ** 3;
/** Bytes of the templates, the guest folder and what building them takes. */
const CACHE_BYTES = 4 * GIB;

/** @typedef {{ problem: string, remedy: string }} Refusal */

/**
 * Returns the room that a first start needs in the cache folder; none once there are templates, when a start downloads
 * nothing.
 *
 * @param {string} cacheDir
 */
export function roomOfCache(cacheDir) {
  return fs.existsSync(`${cacheDir}/templates`) ? [] : [{ folder: cacheDir, bytes: CACHE_BYTES }];
}

/**
 * Returns why Cloche cannot be installed or run on this machine, with the fix of each. Takes some milliseconds.
 *
 * @param {{
 *   command: string,
 *   needsRoot: boolean,
 *   room: readonly { folder: string, bytes: number }[],
 *   downloads: boolean,
 * }} options the command that the user typed; the folders that will be filled; whether anything has to be downloaded
 * @returns {Refusal[]}
 */
export function refusals({ command, needsRoot, room, downloads }) {
  if (process.platform !== 'linux') {
    return [{ problem: 'Cloche runs on Linux.', remedy: 'Use a Linux machine, or a virtual one.' }];
  }
  const found = [refuseNode(), refuseArchitecture(), refuseLibrary()];
  if (needsRoot) found.push(refuseUser(command), refuseKernel(), refuseCgroups());
  found.push(...room.map(refuseRoom));
  if (needsRoot && downloads) found.push(refuseDistribution(), refuseNetwork());
  return found.flatMap((one) => one || []);
}

function refuseNode() {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) >= OLDEST_NODE) return undefined;
  return {
    problem: `Node ${node} is too old to start Cloche, which needs ${OLDEST_NODE} or newer and brings its own.`,
    remedy: 'Run `npm install --global node@22 && hash -r`, then start again.',
  };
}

function refuseArchitecture() {
  if (['x64', 'arm64'].includes(process.arch)) return undefined;
  return { problem: `This machine is ${process.arch}.`, remedy: 'Cloche runs on x64 and arm64: use such a machine.' };
}

function refuseLibrary() {
  const loader = process.arch === 'arm64' ? '/lib/ld-linux-aarch64.so.1' : '/lib64/ld-linux-x86-64.so.2';
  if (fs.existsSync(loader)) return undefined;
  return {
    problem: `${loader} is missing: this distribution has another C library than GNU's.`,
    remedy: 'Use a distribution with the GNU C library, such as Debian; Alpine has musl.',
  };
}

/** @param {string} command */
function refuseUser(command) {
  if (process.getuid && process.getuid() === 0) return undefined;
  return { problem: 'Cloche has to be started as root.', remedy: `Run \`sudo ${command}\`.` };
}

function refuseKernel() {
  if (isNewKernel(release())) return undefined;
  const remedy = 'Install a newer one and reboot: on Ubuntu 22.04 `apt-get install linux-generic-hwe-22.04`.';
  return { problem: `Linux ${release()} is too old: Cloche needs ${OLDEST_KERNEL.join('.')} or newer.`, remedy };
}

function refuseCgroups() {
  const mountInfo = textOf('/proc/self/mountinfo');
  const v2 = findV2Mount(mountInfo);
  const { controllers } = readCgroupLayout(mountInfo, v2 ? textOf(`${v2}/cgroup.controllers`) : '');
  const lacking = NEEDED_CONTROLLERS.filter((name) => !controllers[name]);
  if (lacking.length === 0) return undefined;
  const switchOn = lacking.includes('memory')
    ? ', and boot with `cgroup_enable=memory` if this kernel switches it off'
    : '';
  return {
    problem: `The control groups of this machine lack ${lacking.join(', ')}.`,
    remedy: `Mount /sys/fs/cgroup as systemd does${switchOn}.`,
  };
}

/** @param {{ folder: string, bytes: number }} room */
function refuseRoom({ folder, bytes }) {
  const free = freeBytes(folder);
  if (free === undefined || free >= bytes) return undefined;
  return {
    problem: `${folder} has ${gib(free)} of free disk space, and needs ${gib(bytes)}.`,
    remedy: 'Free disk space, or choose other folders: CLOCHE_CACHE_DIR and CLOCHE_DATA_DIR.',
  };
}

/**
 * @param {string} folder which need not exist yet
 * @returns {number | undefined}
 */
function freeBytes(folder) {
  // Not in Node before 18.15.
  if (!fs.statfsSync) return undefined;
  const { bavail, bsize } = fs.statfsSync(nearestFolder(folder));
  return bavail * bsize;
}

function refuseDistribution() {
  if (findManager()) return undefined;
  const lacking = SYSTEM_PACKAGES.filter((row) => !isPresent(row)).map(({ packages }) => packages['apt-get']);
  if (lacking.length === 0) return undefined;
  return {
    problem: `This distribution has neither apt-get, dnf, zypper nor pacman, and lacks ${lacking.join(', ')}.`,
    remedy: "Install these by its own means (the names are Debian's), then start again.",
  };
}

function refuseNetwork() {
  // Not only default routes: a mirror or proxy may be a neighbour.
  const isConnected =
    hasRoute('/proc/net/route', /^(?!Iface|lo)\S+\t/m) || hasRoute('/proc/net/ipv6_route', /\s(?!lo$)\S+$/m);
  if (isConnected) return undefined;
  return {
    problem: 'This machine has no network, and packages have to be downloaded.',
    remedy: 'Connect it, then start again.',
  };
}

/**
 * @param {string} file a table of routes
 * @param {RegExp} pattern of a line of another interface than the loopback
 */
function hasRoute(file, pattern) {
  return pattern.test(textOf(file));
}

/** @param {string} file */
function textOf(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** @param {number} bytes */
function gib(bytes) {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}
