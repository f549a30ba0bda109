import { execFileSync } from 'node:child_process';
import { bindLibc, checked } from '../../../packages/host/hostd/src/linux/libc.ts';

const unshareCall = bindLibc('int unshare(int flags)');
const CLONE_NEWNET = 0x4000_0000;

/**
 * Moves this process, and the programs that it starts from now on, into a network namespace of its own, where a test may
 * have the firewall of another machine. The namespace ends with the last of them.
 */
export function enterOwnNetwork(): void {
  checked(unshareCall(CLONE_NEWNET), 'unshare', 'network');
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
}
