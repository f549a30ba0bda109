export * from './agent-protocol.ts';
export * from './egress-protocol.ts';
export * from './hostd-protocol.ts';
export * from './kernel-constants.ts';
export * from './kernel-protocol.ts';
export * from './operator-protocol.ts';
export * from './places.ts';
export * from './version.ts';
