/** Duration of a stage of `npm test`, and of each of its files. */
export interface StageTime {
  readonly name: string;
  readonly seconds: number;
  /** Share of the machine's processor time that was used meanwhile, from 0 to 1. */
  readonly busyShare: number;
  /** Seconds by the path of the file. */
  readonly files: Readonly<Record<string, number>>;
}

const SLOWEST = 5;

/** Returns a table of the stages, and of the files whose tests took longest, with their seconds. */
export function timeTable(stages: readonly StageTime[]): string {
  const files = stages.flatMap(({ name, files }) =>
    Object.entries(files).map(([file, seconds]) => ({ name: `${name}: ${file}`, seconds })),
  );
  const slowest = files.sort((one, other) => other.seconds - one.seconds).slice(0, SLOWEST);
  const line = ({ name, seconds }: { name: string; seconds: number }) => `${seconds.toFixed(1).padStart(8)} s  ${name}`;
  const stage = ({ busyShare, ...stage }: StageTime) =>
    `${line(stage)}, processors ${Math.round(busyShare * 100)} % busy`;
  return [
    'Stages:',
    ...stages.map(stage),
    ...(slowest.length > 0 ? ['Slowest files:', ...slowest.map(line)] : []),
  ].join('\n');
}
