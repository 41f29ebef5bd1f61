console.error("giving up");
process.exit(3);
