import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { seccompProfile } from './seccomp-profile.ts';
import { compileSeccomp } from './seccomp-program.ts';

const INSTRUCTION_BYTES = 8;
/** The kernel's limit of instructions. */
const MAX_INSTRUCTIONS = 4096;
/** Opcode of `ret` with a constant, and the meanings of the constants. */
const RETURN = 0x06;
const ALLOW = 0x7fff_0000;
const EPERM_ERROR = 0x0005_0001;
const KILL = 0x8000_0000;
const KILL_THREAD = 0;

function returnsOf(program: Buffer): Set<number> {
  const returns = new Set<number>();
  for (let at = 0; at < program.length; at += INSTRUCTION_BYTES) {
    if (program.readUInt16LE(at) === RETURN) returns.add(program.readUInt32LE(at + 4));
  }
  return returns;
}

describe('the compiled seccomp profile', () => {
  test('the compiled seccomp profile is no larger than the kernel accepts', () => {
    const program = compileSeccomp(seccompProfile());
    assert.equal(program.length % INSTRUCTION_BYTES, 0);
    assert.ok(program.length > 0 && program.length / INSTRUCTION_BYTES <= MAX_INSTRUCTIONS);
  });

  test('the compiled seccomp profile refuses, allows and kills as the profile says', () => {
    const returns = returnsOf(compileSeccomp(seccompProfile()));
    for (const expected of [ALLOW, EPERM_ERROR]) assert.ok(returns.has(expected), expected.toString(16));
    assert.ok(returns.has(KILL) || returns.has(KILL_THREAD), 'calls of another architecture');
  });

  test('grows with further allowed calls', () => {
    const profile = seccompProfile();
    const more = { ...profile, syscalls: [...profile.syscalls, { names: ['setns'], action: 'SCMP_ACT_ALLOW' }] };
    assert.ok(compileSeccomp(more).length > compileSeccomp(profile).length);
  });

  test('the compiled seccomp profile is not compiled when the profile has an unknown action', () => {
    const profile = seccompProfile();
    const unknown = { ...profile, syscalls: [{ names: ['read'], action: 'SCMP_ACT_TRACE' }] };
    assert.throws(() => compileSeccomp(unknown), /the seccomp action SCMP_ACT_TRACE is unknown/);
  });
});
