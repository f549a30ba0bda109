export * from './address-ranges.ts';
export * from './closed-ranges.ts';
export * from './effective-settings.ts';
export * from './host-defaults.ts';
export * from './read-settings.ts';
export * from './setting.ts';
export * from './settings.ts';
