Promise.resolve(1).then((x) => {
  return x.toUpperCase();
});
