import { pino } from 'pino';

export const SILENT = pino({ level: 'silent' });
