/**
 * Entry point of Node in a sandbox. Loads the agent with the V8 code cache that was written when the guest folder was
 * built, so that a start compiles almost nothing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodeCachedProgram } from '@cloche/node-support';
import { AGENT_PROGRAM, PRECOMPILED_AGENT } from './agent-program.ts';

const folder = import.meta.dirname;
new CodeCachedProgram(join(folder, AGENT_PROGRAM), readFileSync(join(folder, PRECOMPILED_AGENT))).load();
