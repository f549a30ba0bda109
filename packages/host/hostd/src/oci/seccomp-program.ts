import { closeSync, fstatSync, readSync } from 'node:fs';
import koffi from 'koffi';
import { bindLibc, checked } from '../linux/libc.ts';
import type { SeccompProfile } from './seccomp-profile.ts';

const ACTIONS: Readonly<Record<string, number>> = { SCMP_ACT_ALLOW: 0x7fff_0000, SCMP_ACT_ERRNO: 0x0005_0000 };
const OPERATORS: Readonly<Record<string, number>> = { SCMP_CMP_EQ: 4, SCMP_CMP_MASKED_EQ: 7 };
const ATTRIBUTE_OPTIMIZE = 8;
const OPTIMIZE_BINARY_TREE = 2;
const COMPARISON_BYTES = 24;
const UNKNOWN_CALL = -1;
const MFD_CLOEXEC = 1;

const memfdCall = bindLibc('int memfd_create(const char *name, uint flags)');

/**
 * Compiles the profile to the program that the kernel runs, with the same library that an OCI runtime uses. Compiled
 * once here, because the runtime would do it at each launch: 6 ms of processor time, measured. Throws when the library
 * is not installed (crun and runc depend on it).
 */
export function compileSeccomp(profile: SeccompProfile): Buffer {
  const seccomp = bindSeccomp();
  const context = seccomp.init(actionOf(profile.defaultAction, profile.defaultErrnoRet));
  if (context === null) throw new Error('libseccomp refuses the default action');
  const fd = checked(memfdCall('seccomp', MFD_CLOEXEC), 'memfd_create');
  try {
    succeed(seccomp.attrSet(context, ATTRIBUTE_OPTIMIZE, OPTIMIZE_BINARY_TREE), 'seccomp_attr_set');
    for (const { names, action, errnoRet, args = [] } of profile.syscalls) {
      const comparisons = Buffer.concat(args.map(comparison));
      for (const name of names) {
        const number = seccomp.resolve(name);
        // A call that is unknown to this library or architecture cannot be made by that name either.
        if (number === UNKNOWN_CALL) continue;
        const added = seccomp.ruleAdd(context, actionOf(action, errnoRet), number, args.length, comparisons);
        succeed(added, `seccomp_rule_add ${name}`);
      }
    }
    succeed(seccomp.exportBpf(context, fd), 'seccomp_export_bpf');
    const program = Buffer.alloc(fstatSync(fd).size);
    readSync(fd, program, 0, program.length, 0);
    return program;
  } finally {
    seccomp.release(context);
    closeSync(fd);
  }
}

function actionOf(name: string, errno = 0): number {
  const action = ACTIONS[name];
  if (action === undefined) throw new Error(`the seccomp action ${name} is unknown`);
  return name === 'SCMP_ACT_ERRNO' ? action | errno : action;
}

/** `struct scmp_arg_cmp` */
function comparison(arg: { index: number; value: number; valueTwo?: number; op: string }): Buffer {
  const operator = OPERATORS[arg.op];
  if (operator === undefined) throw new Error(`the seccomp operator ${arg.op} is unknown`);
  const bytes = Buffer.alloc(COMPARISON_BYTES);
  bytes.writeUInt32LE(arg.index, 0);
  bytes.writeInt32LE(operator, 4);
  bytes.writeBigUInt64LE(BigInt(arg.value), 8);
  bytes.writeBigUInt64LE(BigInt(arg.valueTwo ?? 0), 16);
  return bytes;
}

function succeed(result: number, what: string): void {
  if (result < 0) throw new Error(`${what} failed with ${result}`);
}

function bindSeccomp() {
  const library = koffi.load('libseccomp.so.2');
  return {
    init: library.func('void *seccomp_init(uint32_t action)'),
    release: library.func('void seccomp_release(void *context)'),
    attrSet: library.func('int seccomp_attr_set(void *context, int attribute, uint32_t value)'),
    resolve: library.func('int seccomp_syscall_resolve_name(const char *name)'),
    ruleAdd: library.func(
      'int seccomp_rule_add_array(void *context, uint32_t action, int call, uint count, const void *comparisons)',
    ),
    exportBpf: library.func('int seccomp_export_bpf(void *context, int fd)'),
  };
}
