let total = 1;
console.log(totla + 1);
