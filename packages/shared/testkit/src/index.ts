export { type AgentCommandsSubject, describeAgentCommands } from './agent-commands-suite.ts';
export { type AgentFilesSubject, describeAgentFiles } from './agent-files-suite.ts';
export { FakeClock } from './fake-clock.ts';
export { fakeManifest } from './fake-manifest.ts';
export { FakeRuntimeDriver } from './fake-runtime-driver.ts';
export { describeRuntimeDriver, type RuntimeDriverSubject } from './runtime-driver-suite.ts';
export { SequentialIds } from './sequential-ids.ts';
