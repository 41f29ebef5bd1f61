async function main() {
  throw new Error("async failure");
}
main();
