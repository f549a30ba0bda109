setInterval(() => {}, 60_000);
process.once('SIGTERM', () => process.exit(0));
