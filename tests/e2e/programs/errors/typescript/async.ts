async function main(): Promise<void> {
  const n: number = -5;
  await Promise.resolve();
  "abc".repeat(n);
}
main();
