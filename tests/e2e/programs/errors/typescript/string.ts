const a: string = "abc;
console.log(a);
