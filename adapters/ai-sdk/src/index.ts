export { type ClocheSandboxSettings, createClocheSandbox } from './provider.ts';
export { ClocheSandboxSession, type SandboxSession } from './sandbox-session.ts';
