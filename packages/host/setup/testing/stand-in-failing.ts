console.error('the reason why it does not start');
process.exit(3);
