import { KERNELS_FOLDER } from '@cloche/layout';
import { CAPABILITIES, sharedSeccompProfile } from '../oci/oci-config.ts';
import { resourceLimits } from '../oci/resource-limits.ts';
import { compileSeccomp } from '../oci/seccomp-program.ts';

const NUMBERS: Readonly<Record<string, number>> = {
  CAP_CHOWN: 0,
  CAP_DAC_OVERRIDE: 1,
  CAP_FOWNER: 3,
  CAP_FSETID: 4,
  CAP_KILL: 5,
  CAP_SETGID: 6,
  CAP_SETUID: 7,
  CAP_NET_BIND_SERVICE: 10,
  CAP_SYS_CHROOT: 18,
  CAP_SYS_ADMIN: 21,
  CAP_SETFCAP: 31,
};

/**
 * Calls that a zygote may make in addition to a guest's: to enter namespaces, to leave a keyring, and to set the filter
 * of kernels.
 */
const CALLS_OF_ZYGOTES = ['setns', 'keyctl', 'prctl'];

/** User id of kernels in every sandbox. */
const KERNEL_UID = 1000;

/**
 * Returns the namespaces of a sandbox in the order in which a kernel enters them. The fork enters the first one; the
 * kernel itself enters the others.
 */
export function namespacesToEnter(timeNamespace: boolean): string[] {
  return ['pid', 'user', 'mnt', 'net', 'ipc', 'uts', 'cgroup', ...(timeNamespace ? ['time'] : [])];
}

/** Returns the first message to a zygote: its own restrictions, and those of the kernels that it forks. */
export function zygoteSetup(timeNamespace: boolean): string {
  const profile = sharedSeccompProfile();
  const others = profile.syscalls.filter(({ names }) => !names.some((name) => CALLS_OF_ZYGOTES.includes(name)));
  const ownProfile = {
    ...profile,
    syscalls: [...others, { names: CALLS_OF_ZYGOTES, action: 'SCMP_ACT_ALLOW' }],
  };
  return JSON.stringify({
    ownFilter: compileSeccomp(ownProfile).toString('base64'),
    // SECURITY: only to enter the namespaces of sandboxes (forked-kernels.test.ts).
    ownCapabilities: [NUMBERS.CAP_SYS_ADMIN],
    kernelFilter: compileSeccomp(profile).toString('base64'),
    kernelCapabilities: CAPABILITIES.map(numberOf),
    limits: resourceLimits().map(({ number, value }) => [number, value]),
    uid: KERNEL_UID,
    agentPlace: KERNELS_FOLDER,
    namespaces: namespacesToEnter(timeNamespace).length,
  });
}

function numberOf(capability: string): number {
  const number = NUMBERS[capability];
  if (number === undefined) throw new Error(`the number of ${capability} is not known`);
  return number;
}
