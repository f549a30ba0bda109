import { readFile } from 'node:fs/promises';
import { checkCgroupMoves } from './cgroup-moves.ts';
import { checkCrashHandler, checkSetIdDumps } from './crash-checks.ts';
import type { Finding } from './finding.ts';
import { checkSandboxIds } from './id-checks.ts';
import {
  checkCgroups,
  checkIdmappedMounts,
  checkKernel,
  checkKernelMemory,
  checkLoopDevices,
  checkOverlay,
  checkRoot,
  checkUserNamespaces,
} from './kernel-checks.ts';
import { checkDisk, checkMemory, checkNode, checkOldVersions, checkServicePort } from './resource-checks.ts';
import { checkSwap } from './swap-check.ts';
import { checkSysctls } from './sysctls.ts';
import { checkTemplateAges } from './template-age-check.ts';
import { checkTools, toolsOf } from './tool-checks.ts';

export type ExaminedPaths = {
  dataDir: string;
  cacheDir: string;
  cacheRetentionMs: number;
  host: string;
  port: number;
};

/** Checks everything that Cloche needs of a host, without changing anything. `cloche doctor` prints the result. */
export async function examineHost(paths: ExaminedPaths): Promise<Finding[]> {
  const [base, tools, resources, templates] = await Promise.all([
    examineBase(paths.cacheDir),
    checkTools(toolsOf(paths.cacheDir)),
    examineResources(paths),
    checkTemplateAges(paths.cacheDir),
  ]);
  return [...base, ...tools, ...resources, ...templates];
}

/** Checks requirements that no installation can add: the kernel, its file systems and this process's rights. */
export async function examineBase(cacheDir: string): Promise<Finding[]> {
  return Promise.all([
    checkRoot(),
    checkKernel(),
    checkUserNamespaces(),
    checkCgroups(),
    checkOverlay(),
    checkIdmappedMounts(cacheDir),
    checkLoopDevices(),
  ]);
}

async function examineResources({
  dataDir,
  cacheDir,
  cacheRetentionMs,
  host,
  port,
}: ExaminedPaths): Promise<Finding[]> {
  return Promise.all([
    checkNode(),
    checkMemory(),
    checkSwap(),
    checkDisk('disk (data)', dataDir),
    checkDisk('disk (cache)', cacheDir),
    checkOldVersions(cacheDir, cacheRetentionMs),
    checkServicePort(host, port),
    checkSysctls(),
    readFile('/proc/cmdline', 'utf8').then(checkKernelMemory),
    checkCrashHandler(),
    checkSetIdDumps(),
    checkSandboxIds(),
    checkCgroupMoves(),
  ]);
}
