/** Parsers of option values. Each error says which values are accepted. */
import type { Language, NetworkMode, NetworkPolicy, ProjectQuotas } from '@cloche/contract';
import { COMMAND_USERS, LANGUAGES, NETWORK_MODES, QUOTAS } from '@cloche/contract/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { formatDuration, parseDuration } from './terminal/duration.ts';

/** Parses a duration into milliseconds. */
export function duration(text: string): number {
  const durationMs = parseDuration(text);
  if (durationMs === undefined || durationMs < 1) throw new InvalidArgumentError('Write it as 90s, 10m or 1h30m.');
  return durationMs;
}

/** Parses a duration of at most `maxMs`. */
export function durationUpTo(maxMs: number): (text: string) => number {
  return (text) => {
    const durationMs = duration(text);
    if (durationMs > maxMs) throw new InvalidArgumentError(`Give at most ${formatDuration(maxMs)}.`);
    return durationMs;
  };
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('Give a whole number.');
  return Number(text);
}

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('Give a number greater than 0.');
  return value;
}

/** Parses a time, or a duration before now. */
export function time(text: string): Date {
  const agoMs = parseDuration(text);
  // JavaScript also reads a lone number as a date.
  const isDate = /^\d{4}-\d\d-\d\d/.test(text);
  const value = agoMs === undefined ? new Date(isDate ? text : Number.NaN) : new Date(Date.now() - agoMs);
  if (Number.isNaN(value.getTime())) throw new InvalidArgumentError('Write it as 2026-01-31T09:00Z, or as 2h.');
  return value;
}

/** Parses a repeatable `KEY=VALUE`. */
export function keyValue(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Write it as KEY=VALUE.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Parses a repeatable quota, such as `liveSandboxes=20` or `liveSandboxes=none`. */
export function quota(text: string, before: ProjectQuotas = {}): ProjectQuotas {
  const [name = '', value = ''] = text.split(/=(.*)/s);
  if (!Object.hasOwn(QUOTAS, name)) throw new InvalidArgumentError(`Use one of ${Object.keys(QUOTAS).join(', ')}.`);
  if (value === 'none') return { ...before, [name]: null };
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Write it as NAME=NUMBER or NAME=none.');
  return { ...before, [name]: Number(value) };
}

/** Parses a list, separated by commas or given as a repeated option. */
export function list(text: string, before: string[] = []): string[] {
  const items = text.split(',').map((item) => item.trim());
  return [...before, ...items.filter((item) => item !== '')];
}

export function language(text: string): Language {
  const known = LANGUAGES.find((name) => name === text);
  if (!known) throw new InvalidArgumentError(`Use one of ${LANGUAGES.join(', ')}.`);
  return known;
}

/** Parses a policy such as `deny-all` or `allowlist:api.example.org,*.example.com`. */
export function networkPolicy(text: string): NetworkPolicy {
  const [name = '', hosts] = text.split(/:(.*)/s);
  const mode = NETWORK_MODES.find((known): known is NetworkMode => known === name);
  const takesHosts = mode === 'allowlist' || mode === 'denylist';
  if (!mode || takesHosts !== (hosts !== undefined)) {
    throw new InvalidArgumentError('Use unrestricted, deny-all, allowlist:HOST,… or denylist:HOST,….');
  }
  return hosts === undefined ? { mode } : { mode, hosts: list(hosts) };
}

/** Returns the option for the user that an operation runs as. */
export function userOption(): Option {
  return new Option('--user <user>', 'act as this user; root is root only inside the sandbox (default: user)').choices(
    COMMAND_USERS,
  );
}

/** Adds the option of commands that print output of programs. */
export function withRaw(command: Command): Command {
  return command.option('--raw', 'pass output on to a terminal as it is, with all that the terminal obeys');
}
