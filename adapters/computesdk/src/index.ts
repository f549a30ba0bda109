export { type ClocheConfig, cloche } from './provider.ts';
