export { claimsOf } from '@cloche/server/isolation-claims';
