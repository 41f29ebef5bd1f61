async function fetchData(): Promise<string> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error("timeout")), 10);
  });
}
fetchData().then(console.log);
