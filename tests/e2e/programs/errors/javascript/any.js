const no = (m) => Promise.reject(new Error(m));

async function main() {
  const first = await Promise.any([no("a"), no("b")]);
  console.log(first);
}
main();
