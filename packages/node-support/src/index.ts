export * from './direct-body.ts';
export * from './expected-bytes.ts';
export * from './exposed-collector.ts';
export * from './idle-tidying.ts';
export * from './plain-json.ts';
export * from './precompiled-program.ts';
