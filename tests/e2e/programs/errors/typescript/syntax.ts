const x: number = 1;
let y z = 2;
