setTimeout(() => {
  undefined.foo();
}, 1);
