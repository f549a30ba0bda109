export { claimsOf } from '@cloche/runtime/isolation-claims';
