import { CliError, type Column, leaf, perform, table } from '@cloche/cli/kit';
import type { Command } from 'commander';

export function addDoctorCommand(program: Command): void {
  const doctor = leaf(program, 'doctor', 'Check whether this machine can run Cloche');
  perform(doctor, async (session) => {
    // Loaded late, because only this command needs the checks.
    const { effectiveSettings } = await import('@cloche/settings');
    const { examineHost } = await import('@cloche/host-checks');
    const values = new Map(effectiveSettings(process.env).map(({ name, value }) => [name, value ?? '']));
    const { examineNetwork } = await import('./network-findings.ts');
    const host = await examineHost({
      dataDir: values.get('CLOCHE_DATA_DIR') ?? '',
      cacheDir: values.get('CLOCHE_CACHE_DIR') ?? '',
      cacheRetentionMs: Number(values.get('CLOCHE_CACHE_RETENTION_MS')),
      host: values.get('CLOCHE_HOST') ?? '',
      port: Number(values.get('CLOCHE_PORT')),
    });
    const findings = [...host, ...(await examineNetwork())];
    const { colors } = session.terminal.out;
    const colorOf = { ok: colors.green, warning: colors.yellow, missing: colors.red };
    await session.show({ data: findings }, () => {
      const columns: Column<(typeof findings)[number]>[] = [
        { title: 'WHAT', value: ({ name }) => name },
        { title: 'STATUS', value: ({ status }) => status, style: (cell, { status }) => colorOf[status](cell) },
        { title: 'FOUND', value: ({ found }) => found },
      ];
      // Listed below the table, because the sentences are too long for a column.
      const amiss = findings.filter(({ remedy }) => remedy !== '');
      const remedies = amiss.map(({ name, status, remedy }) => `\n${colorOf[status](name)}: ${remedy}`);
      return [table(findings, columns, { colors }), ...remedies].join('\n');
    });
    const missing = findings.filter(({ status }) => status === 'missing').map(({ name }) => name);
    if (missing.length > 0) throw new CliError(`This machine lacks: ${missing.join(', ')}; follow the remedies above.`);
  });
}
