const s = "abc";
[1].forEach((x) => {
  s.push(x);
});
