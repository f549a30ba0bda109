import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { kernelJsFlags } from '@cloche/kernel-js/flags';
import type { Language } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import type { AgentConfig } from '../config.ts';
import type { KernelCommand } from '../kernels/start-kernel.ts';
import { nodeCommand } from '../processes/node-command.ts';

/** Returns the program that starts a kernel. Throws `language_unavailable` if the template has none for `language`. */
export function kernelCommand(language: Language, config: AgentConfig): KernelCommand {
  const program = language === 'python' ? join(config.guestDir, 'python/cloche_kernel') : kernelJsMain(config);
  const [file, ...before] = language === 'python' ? [config.python] : nodeCommand(config);
  if (file === undefined || !existsSync(file) || !existsSync(program)) {
    throw new AgentError('language_unavailable', `This template cannot run ${language}.`);
  }
  const args = language === 'python' ? [program] : [...before, ...kernelJsFlags, program, language];
  return { file, args };
}

function kernelJsMain(config: AgentConfig): string {
  return join(config.guestDir, 'kernel-js/main.cjs');
}
